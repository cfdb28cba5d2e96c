"""``agentr1 index info``: what is in an index folder."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from agent_envs.retrieval.manifest import check_files, read_manifest


def info(
    folder: Annotated[Path, typer.Argument(help="An index folder.")],
    verify: Annotated[bool, typer.Option("--verify", help="Read every file and compare its SHA-256.")] = False,
) -> None:
    """Say what an index folder holds, and check that its files are those that were written.

    Examples: agentr1 index info indexes/wiki, agentr1 index info indexes/wiki --verify
    """
    manifest = read_manifest(folder)
    check_files(folder, manifest, verify=verify)
    table = Table(show_header=False, box=None, pad_edge=False)
    table.add_row("kind", manifest.kind)
    table.add_row("parameters", ", ".join(f"{name} {value:g}" for name, value in manifest.parameters.items()) or "none")
    table.add_row("passages", f"{manifest.passages:,} of {escape(manifest.source)}")
    table.add_row("corpus", manifest.corpus_sha256)
    if manifest.encoder is not None:
        encoder = manifest.encoder
        table.add_row("encoder", f"{escape(encoder.name)}, {encoder.dimension} numbers a vector")
        table.add_row("fingerprint", encoder.fingerprint)
        table.add_row("prefixes", escape(f"query {encoder.query_prefix!r}, passage {encoder.passage_prefix!r}"))
    table.add_row("versions", ", ".join(f"{name} {version}" for name, version in manifest.versions.items()))
    for record in manifest.files:
        table.add_row(escape(record.name), f"{record.bytes:,} bytes{', intact' if verify else ''}")
    Console().print(table)
