"""Builds an index folder from a corpus: passages, then the kind's own files, and the manifest last.

The corpus is streamed and memory stays bounded, whatever its size: a chunk of passages, a shard of vectors, some 40
bytes a passage to find repetitions, and for BM25 the vocabulary (HNSW alone is built in memory). A build that was
killed goes on where it was when it is run again, and ends in the same bytes.
"""

from __future__ import annotations

import importlib.metadata
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import islice
from pathlib import Path

import numpy as np

from agent_envs.data.corpus import stream_corpus
from agent_envs.data.records import Passage
from agent_envs.errors import ConfigError, DataError
from agent_envs.options import require_choice
from agent_envs.retrieval.bm25 import K1, B
from agent_envs.retrieval.build_bm25 import build_bm25
from agent_envs.retrieval.build_vectors import build_cells, build_graph, copy_vectors, encode_passages
from agent_envs.retrieval.encoder import Encoder
from agent_envs.retrieval.journal import JOURNAL, Journal, building_alone
from agent_envs.retrieval.manifest import (
    MANIFEST,
    EncoderRecord,
    FileRecord,
    Manifest,
    read_manifest,
    record_file,
    write_manifest,
)
from agent_envs.retrieval.passage_store import SPANS, TEXTS, PassageStore, key_of, passages_sha256, without_repetitions
from agent_envs.retrieval.progress import Progress, silent
from agent_envs.retrieval.vector_index import DENSE_KINDS, VECTORS, choose_parameters

KINDS = ("bm25", *DENSE_KINDS)

_READ, _HASH = "read passages", "hash files"
_RAW_SPANS, _KEYS = "spans.tmp", "keys.tmp"


@dataclass(frozen=True, slots=True)
class CorpusSource:
    """Where passages come from.

    Attributes:
        name: for the manifest.
        passages: gives all of them from the first on, each time it is called.
        signature: differs where the passages may differ; an interrupted build goes on only with the same.
    """

    name: str
    passages: Callable[[], Iterable[Passage]]
    signature: str = ""


@dataclass(frozen=True, slots=True)
class BuildSettings:
    """What to build.

    Attributes:
        kind: "bm25", "flat", "ivf", "ivfpq" or "hnsw".
        parameters: of the kind, where they are not to be chosen by the size of the corpus.
        vectors_from: a finished "flat" index of the same corpus, whose vectors are taken instead of encoding again.
        chunk_passages: read or counted between two checkpoints.
        encode_passages: encoded between two checkpoints.
        shard_bytes: of the vectors that are in memory at once.
    """

    kind: str
    parameters: Mapping[str, float] = field(default_factory=dict)
    vectors_from: Path | None = None
    chunk_passages: int = 10_000
    encode_passages: int = 1024
    shard_bytes: int = 2**29

    def __post_init__(self) -> None:
        """Checks the kind.

        Raises:
            ConfigError: it is unknown.
        """
        require_choice("kind", self.kind, KINDS)


def file_source(path: str | Path) -> CorpusSource:
    """The passages of a file, see ``agent_envs.data.corpus``.

    Raises:
        DataError: there is no such file.
    """
    path = Path(path)
    if not path.is_file():
        raise DataError(f"{path}: expected a file of passages, there is none")
    state = path.stat()
    return CorpusSource(path.name, lambda: stream_corpus(path), f"{state.st_size} bytes, modified {state.st_mtime_ns}")


def build_index(
    source: CorpusSource,
    folder: str | Path,
    settings: BuildSettings,
    encoder: Encoder | None = None,
    progress: Progress = silent,
) -> Manifest:
    """Builds an index in a folder, or goes on with the interrupted build there.

    Args:
        source: the passages; repeated ones are kept once.
        folder: a new or empty one, or that of the interrupted build.
        settings: what to build.
        encoder: of the dense kinds, unless ``vectors_from`` is given.
        progress: is told what is done.

    Raises:
        ConfigError: a setting is wrong, or the folder holds something else, or another build is running there.
        DataError: the corpus is malformed or has no passage, or the encoder gives numbers that are not finite.
        MissingExtraError: a dense kind, and the extra ``retrieval`` is not installed.
    """
    with building_alone(Path(folder)):
        if not (Path(folder) / MANIFEST).exists():
            _build(source, Path(folder), settings, encoder, progress)
        return _tidied(Path(folder))


def _build(
    source: CorpusSource, folder: Path, settings: BuildSettings, encoder: Encoder | None, progress: Progress
) -> None:
    record = _encoder_record(settings, encoder)
    journal = Journal(folder, _dependencies(source, settings, record))
    passages = _read_passages(journal, source, settings, progress)
    parameters, names = _build_kind(journal, passages, settings, encoder, progress)
    manifest = Manifest(
        kind=settings.kind,
        passages=len(passages),
        corpus_sha256=passages_sha256(passages),
        source=source.name,
        parameters=parameters,
        encoder=record,
        files=_recorded(folder, [TEXTS, SPANS, *names], progress),
        versions=_versions(settings.kind),
    )
    write_manifest(folder, manifest)


def _tidied(folder: Path) -> Manifest:
    """Deletes what a finished build leaves behind.

    Raises:
        ConfigError: nothing is left behind, so this is not the end of a build.
    """
    manifest = read_manifest(folder)
    if not (folder / JOURNAL).exists():
        raise ConfigError(f"{folder}: a finished index is there already; choose another folder, or delete it")
    keep = {MANIFEST, JOURNAL, *(record.name for record in manifest.files)}
    for path in folder.iterdir():
        if path.name not in keep:
            path.unlink()
    (folder / JOURNAL).unlink()
    return manifest


def _encoder_record(settings: BuildSettings, encoder: Encoder | None) -> EncoderRecord | None:
    if settings.kind == "bm25":
        if encoder is not None or settings.vectors_from is not None:
            raise ConfigError("bm25 takes no encoder and no vectors; choose a dense kind, or leave them out")
        return None
    if settings.vectors_from is not None:
        taken = read_manifest(settings.vectors_from)
        if taken.kind != "flat":
            raise ConfigError(f"vectors are taken from a flat index; {settings.vectors_from} is of kind {taken.kind!r}")
        if encoder is not None:
            raise ConfigError("vectors that are taken from another index need no encoder; leave one of the two out")
        return taken.encoder
    if encoder is None:
        raise ConfigError(f"the kind {settings.kind!r} needs an encoder, or a flat index to take the vectors from")
    return encoder.record


def _dependencies(source: CorpusSource, settings: BuildSettings, record: EncoderRecord | None) -> dict[str, object]:
    return {
        "source": source.name,
        "signature": source.signature,
        "kind": settings.kind,
        "parameters": dict(settings.parameters),
        "encoder": None if record is None else asdict(record),
        "vectors_from": None if settings.vectors_from is None else str(settings.vectors_from),
        "pieces": [settings.chunk_passages, settings.encode_passages, settings.shard_bytes],
    }


def _read_passages(journal: Journal, source: CorpusSource, settings: BuildSettings, progress: Progress) -> PassageStore:
    folder = journal.folder
    if journal.is_done(_READ):
        return PassageStore(folder)
    rows = journal.rows(_READ)
    with journal.appending(_READ, [TEXTS, _RAW_SPANS, _KEYS]) as files:
        stream = islice(iter(source.passages()), rows, None)
        offset = files[0].tell()
        while chunk := list(islice(stream, settings.chunk_passages)):
            texts, spans, keys = _packed(chunk, offset)
            for file, content in zip(files, (texts, spans.tobytes(), keys.tobytes()), strict=True):
                file.write(content)
            offset += len(texts)
            rows += len(chunk)
            journal.checkpoint(_READ, rows, files)
            progress(_READ, rows, None)
    if rows == 0:
        raise DataError(f"{source.name}: the corpus has no passages: expected at least one to search")
    spans = np.fromfile(folder / _RAW_SPANS, "<i8").reshape(-1, 3)
    keys = np.fromfile(folder / _KEYS, "<u8")
    np.save(folder / SPANS, without_repetitions(spans, keys, folder / TEXTS))
    journal.finish(_READ)
    progress(_READ, rows, rows)
    return PassageStore(folder)


def _packed(passages: Iterable[Passage], offset: int) -> tuple[bytes, np.ndarray, np.ndarray]:
    """Texts one behind the other, their spans ``[n, 3]`` from ``offset`` on, and their keys ``[n]``."""
    pieces: list[bytes] = []
    spans, keys = [], []
    for passage in passages:
        title, text = passage.title.encode(), passage.text.encode()
        pieces += (title, text)
        middle = offset + len(title)
        spans.append((offset, middle, middle + len(text)))
        keys.append(key_of(title, text))
        offset = middle + len(text)
    return b"".join(pieces), np.array(spans, "<i8"), np.array(keys, "<u8")


def _build_kind(
    journal: Journal, passages: PassageStore, settings: BuildSettings, encoder: Encoder | None, progress: Progress
) -> tuple[dict[str, float], list[str]]:
    """The kind's own files: its full parameters, and the names of the files."""
    if settings.kind == "bm25":
        parameters = {**(defaults := {"k1": K1, "b": B}), **settings.parameters}
        if unknown := sorted(set(parameters) - set(defaults)):
            raise ConfigError(f"bm25 has no parameter {unknown[0]!r}; it has k1 and b")
        names = build_bm25(journal, passages, parameters["k1"], parameters["b"], settings.chunk_passages, progress)
        return parameters, names
    if settings.vectors_from is not None:
        vectors = copy_vectors(journal, passages, settings.vectors_from)
    else:
        assert encoder is not None  # _encoder_record has seen to it
        vectors = encode_passages(journal, passages, encoder, settings.encode_passages, progress)
    given = {name: _whole(name, value) for name, value in settings.parameters.items()}
    chosen = choose_parameters(settings.kind, *vectors.shape, given)
    if settings.kind == "flat":
        names = [VECTORS]
    elif settings.kind == "hnsw":
        names = build_graph(journal, vectors, chosen, progress)
    else:
        names = build_cells(journal, vectors, chosen, max(1, settings.shard_bytes // (4 * vectors.shape[1])), progress)
    return dict(chosen), names


def _whole(name: str, value: float) -> int:
    if value != int(value):
        raise ConfigError(f"{name}: expected a whole number, got {value}")
    return int(value)


def _recorded(folder: Path, names: Sequence[str], progress: Progress) -> tuple[FileRecord, ...]:
    records = []
    for number, name in enumerate(names):
        progress(_HASH, number, len(names))
        records.append(record_file(folder / name))
    progress(_HASH, len(names), len(names))
    return tuple(records)


def _versions(kind: str) -> dict[str, str]:
    libraries = ("bm25s",) if kind == "bm25" else ("faiss-cpu", "sentence-transformers", "torch")
    found = {}
    for name in ("agent-r1", "numpy", *libraries):
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found
