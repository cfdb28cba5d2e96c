"""The description of an index folder: ``manifest.json``, written last, so that a folder that has one is whole."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pydantic
from pydantic.dataclasses import dataclass

from agent_envs.errors import DataError

FORMAT = 1
MANIFEST = "manifest.json"
_QUICK_BYTES = 256 * 2**20

_STRICT = pydantic.ConfigDict(extra="forbid")


@dataclass(frozen=True, config=_STRICT)
class FileRecord:
    """A file of the folder: its name, length, and SHA-256."""

    name: str
    bytes: int
    sha256: str


@dataclass(frozen=True, config=_STRICT)
class EncoderRecord:
    """The encoder that made the vectors.

    Attributes:
        name: a folder or a name on the Hugging Face hub, as it was given.
        fingerprint: tells two models apart, whatever they are called.
        dimension: of its vectors.
        query_prefix: what was put before each query.
        passage_prefix: what was put before each passage.
    """

    name: str
    fingerprint: str
    dimension: int
    query_prefix: str
    passage_prefix: str


@dataclass(frozen=True, config=_STRICT)
class Manifest:
    """What is in an index folder.

    Attributes:
        kind: "bm25", "flat", "ivf", "ivfpq" or "hnsw".
        passages: how many there are.
        corpus_sha256: of the passages' titles and texts in order: two folders with the same hash search the same.
        source: the name of the corpus it was built from.
        parameters: of the kind, such as ``nlist``.
        encoder: of the dense kinds.
        files: all other files of the folder.
        versions: of this format's writer and the libraries that it used.
        format: of the folder; a newer one is refused.
    """

    kind: str
    passages: int
    corpus_sha256: str
    source: str
    parameters: Mapping[str, int | float]
    encoder: EncoderRecord | None
    files: tuple[FileRecord, ...]
    versions: Mapping[str, str]
    format: int = FORMAT


_READER = pydantic.TypeAdapter(Manifest)


def read_manifest(folder: str | Path) -> Manifest:
    """The description of a finished index folder.

    Raises:
        DataError: there is none, it cannot be read, or it is of a newer format.
    """
    path = Path(folder) / MANIFEST
    try:
        raw = json.loads(path.read_bytes())
    except FileNotFoundError:
        raise DataError(
            f"{folder}: expected an index folder, but it has no {MANIFEST}. Where a build was interrupted, run the "
            "same `agentr1 index build` again to finish it"
        ) from None
    except (OSError, ValueError) as error:
        raise DataError(f"{path}: expected the description of an index, but it cannot be read: {error}") from error
    version = raw.get("format") if isinstance(raw, dict) else None
    if isinstance(version, int) and version > FORMAT:
        raise DataError(
            f"{folder}: the index has format {version}, and this version of agent-r1 knows formats up to {FORMAT}; "
            "update agent-r1, or build the index again"
        )
    try:
        return _READER.validate_python(raw)
    except pydantic.ValidationError as error:
        raise DataError(f"{path}: the description of the index is damaged: {error}") from error


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Writes the description in one stroke: readers see all of it or none."""
    write_json(folder / MANIFEST, {**asdict(manifest)})


def write_json(path: Path, value: Any) -> None:
    """Replaces a small JSON file in one stroke."""
    fresh = path.with_name(path.name + ".new")
    with fresh.open("w", encoding="utf-8") as file:
        json.dump(value, file, indent=2, sort_keys=True, ensure_ascii=False)
        file.write("\n")
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(path)


def record_file(path: Path) -> FileRecord:
    """The name, length and hash of a file."""
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return FileRecord(path.name, path.stat().st_size, digest)


def check_files(folder: Path, manifest: Manifest, *, verify: bool | None = None) -> None:
    """Makes sure that the files are those that were written.

    Args:
        folder: of the index.
        manifest: its description.
        verify: True reads every file, False only looks at lengths, None reads those up to 256 MiB.

    Raises:
        DataError: a file is missing, or differs.
    """
    for record in manifest.files:
        path = folder / record.name
        if not path.is_file():
            raise DataError(f"{folder}: the file {record.name} of the index is missing; copy it again or build anew")
        found = path.stat().st_size
        if found != record.bytes:
            raise DataError(
                f"{path}: the file is damaged: expected {record.bytes:,} bytes, found {found:,}; "
                "copy it again or build anew"
            )
        hashed = record.bytes <= _QUICK_BYTES if verify is None else verify
        if hashed and record_file(path).sha256 != record.sha256:
            raise DataError(
                f"{path}: the file is damaged: its SHA-256 is not the one in {MANIFEST}; copy it again or build anew"
            )
