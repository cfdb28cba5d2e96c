"""``agentr1 index build``: an index folder from a corpus."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from agent_envs.errors import ConfigError
from agent_envs.options import parse_assignments

if TYPE_CHECKING:
    from agent_envs.retrieval.encoder import Encoder


def build(  # noqa: PLR0913 - a command's arguments are its options
    corpus: Annotated[
        str, typer.Argument(help="A file of passages (.jsonl, .json, .parquet; .gz too), or an environment's id.")
    ],
    out: Annotated[Path, typer.Option(help="The index folder: new, or that of an interrupted build.")],
    kind: Annotated[str, typer.Option(help="bm25, flat, ivf, ivfpq or hnsw.")] = "bm25",
    model: Annotated[
        str | None, typer.Option(help="The encoder of the dense kinds: a sentence-transformers folder or name.")
    ] = None,
    query_prefix: Annotated[
        str | None, typer.Option(help="Put before each query; by default what E5 and BGE were trained with.")
    ] = None,
    passage_prefix: Annotated[str | None, typer.Option(help="Put before each passage, likewise.")] = None,
    vectors_from: Annotated[
        Path | None, typer.Option(help="A flat index of the same corpus, to take its vectors and not encode again.")
    ] = None,
    parameter: Annotated[
        list[str] | None, typer.Option("-p", "--parameter", help="Of the kind, as key=value, such as nlist=4096.")
    ] = None,
    option: Annotated[
        list[str] | None, typer.Option("-o", "--option", help="An option of the environment, as key=value.")
    ] = None,
) -> None:
    """Build a search index in a folder; run again after an interruption, it goes on where it was.

    The corpus is streamed and memory stays bounded. Parameters are chosen by the size of the corpus: k1 and b of bm25;
    nlist and nprobe of ivf and ivfpq, and pq_m of ivfpq; m, ef_construction and ef_search of hnsw.

    Such as:

    agentr1 index build corpus.jsonl --out indexes/bm25

    agentr1 index build wiki-18.jsonl --kind ivf --model intfloat/e5-base-v2 --out indexes/wiki

    agentr1 index build AgentR1/HotpotQA-v0 -o dataset=dev.json --kind flat --model BAAI/bge-base-en-v1.5 --out dev
    """
    from agent_envs.retrieval.building import BuildSettings, build_index
    from agent_trainer.commands.index_corpus import corpus_source

    settings = BuildSettings(kind, _numbers(parameter or []), vectors_from)
    source = corpus_source(corpus, parse_assignments(option or []))
    encoder = _encoder(model, query_prefix, passage_prefix)
    console = Console()
    with _bar(console) as bar:
        manifest = build_index(source, out, settings, encoder, _Stages(bar))
    size = sum(path.stat().st_size for path in out.iterdir())
    console.print(f"{out}: {manifest.passages:,} passages, {kind}, {size / 1e6:,.1f} MB")


class _Stages:
    """One line of a progress bar for each stage of a build."""

    def __init__(self, bar: Progress) -> None:
        self._bar = bar
        self._lines: dict[str, TaskID] = {}

    def __call__(self, stage: str, done: int, total: int | None) -> None:
        if stage not in self._lines:
            for line in self._lines.values():
                self._bar.stop_task(line)
            self._lines[stage] = self._bar.add_task(stage, total=total)
        self._bar.update(self._lines[stage], completed=done, total=total)


def _bar(console: Console) -> Progress:
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("ETA"),
        TimeRemainingColumn(),
        console=console,
    )


def _numbers(parameters: list[str]) -> dict[str, float]:
    given = parse_assignments(parameters)
    for name, value in given.items():
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ConfigError(f"the parameter {name} is a number, not {value!r}")
    return given


def _encoder(model: str | None, query_prefix: str | None, passage_prefix: str | None) -> Encoder | None:
    if model is None:
        if query_prefix is not None or passage_prefix is not None:
            raise ConfigError("a prefix belongs to an encoder: give --model too, or leave it out")
        return None
    from agent_envs.retrieval.encoder import load_encoder

    return load_encoder(model, query_prefix, passage_prefix)
