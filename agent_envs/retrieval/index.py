"""Index folders and servers, opened: a place becomes a retriever."""

from __future__ import annotations

import functools
from pathlib import Path

from agent_envs.errors import ConfigError, DataError
from agent_envs.retrieval.base import Retriever
from agent_envs.retrieval.build_bm25 import open_bm25
from agent_envs.retrieval.dense import DenseRetriever
from agent_envs.retrieval.encoder import Encoder, load_encoder
from agent_envs.retrieval.hybrid import HybridRetriever
from agent_envs.retrieval.manifest import MANIFEST, EncoderRecord, check_files, read_manifest
from agent_envs.retrieval.passage_store import PassageStore
from agent_envs.retrieval.vector_index import DENSE_KINDS, open_vectors

_SCHEMES = ("http://", "https://")


def load_index(folder: str | Path, encoder: Encoder | str | None = None, *, verify: bool | None = None) -> Retriever:
    """The retriever over an index folder. Its files are memory-mapped where their kind allows.

    Args:
        folder: what ``agentr1 index build`` wrote.
        encoder: of a dense index: where its model is, if not where the manifest says.
        verify: True hashes every file, False none, None those up to 256 MiB.

    Raises:
        DataError: the folder is no finished index, is damaged, or is of a newer format.
        ConfigError: the encoder is another model than the one that made the vectors, or a BM25 index is given one.
        MissingExtraError: the index is dense, and the extra ``retrieval`` is not installed.
    """
    folder = Path(folder)
    manifest = read_manifest(folder)
    check_files(folder, manifest, verify=verify)
    passages = PassageStore(folder)
    if len(passages) != manifest.passages:
        raise DataError(f"{folder}: expected {manifest.passages:,} passages, found {len(passages):,}; build anew")
    if manifest.encoder is not None and manifest.kind in DENSE_KINDS:
        ready = _matching_encoder(folder, manifest.encoder, encoder)
        parameters = {name: int(value) for name, value in manifest.parameters.items()}
        return DenseRetriever(passages, ready, open_vectors(folder, manifest.kind, parameters))
    if manifest.kind != "bm25":
        raise DataError(f"{folder}: the index is of the kind {manifest.kind!r}, which this version doesn't know")
    if encoder is not None:
        raise ConfigError(f"{folder} is a BM25 index, which needs no encoder; leave it out")
    return open_bm25(folder, passages, manifest.parameters["k1"], manifest.parameters["b"])


def open_index(places: str, encoder: str | None = None) -> Retriever:
    """The retriever of an index folder or a server; of several, separated by commas, a hybrid.

    Folders are opened once per process, until they are built anew.

    Args:
        places: such as "indexes/wiki", "http://127.0.0.1:8000", or "indexes/wiki-bm25,indexes/wiki-flat".
        encoder: where the model of dense folders is, if not where their manifests say.

    Raises:
        AgentEnvError: a place cannot be opened, see ``load_index``.
    """
    if encoder is not None and not has_dense_folder(places):
        raise ConfigError(f"encoder={encoder!r} belongs to dense index folders, and {places!r} has none; leave it out")
    retrievers = [_open(place, encoder) for place in _split(places)]
    return retrievers[0] if len(retrievers) == 1 else HybridRetriever(retrievers)


def has_dense_folder(places: str) -> bool:
    """True where opening these places loads an encoder.

    Raises:
        DataError: a folder is no finished index.
    """
    folders = (place for place in _split(places) if not place.startswith(_SCHEMES))
    return any(read_manifest(folder).encoder is not None for folder in folders)


def _split(places: str) -> list[str]:
    return [place.strip() for place in places.split(",")]


def _open(place: str, encoder: str | None) -> Retriever:
    if place.startswith(_SCHEMES):
        from agent_envs.retrieval.client import HttpRetriever

        return HttpRetriever(place)
    encoder = encoder if has_dense_folder(place) else None
    return _open_folder(place, encoder, (Path(place) / MANIFEST).stat().st_mtime_ns)


@functools.lru_cache(maxsize=8)
def _open_folder(folder: str, encoder: str | None, modified_ns: int) -> Retriever:
    return load_index(folder, encoder)


def _matching_encoder(folder: Path, made_by: EncoderRecord, given: Encoder | str | None) -> Encoder:
    if given is None or isinstance(given, str):
        given = load_encoder(given or made_by.name, made_by.query_prefix, made_by.passage_prefix)
    differences = [
        f"{name} {ours!r} instead of {theirs!r}"
        for name in ("fingerprint", "dimension", "query_prefix", "passage_prefix")
        if (ours := getattr(given.record, name)) != (theirs := getattr(made_by, name))
    ]
    if differences:
        raise ConfigError(
            f"{folder}: its vectors were made by the encoder {made_by.name!r}, and {given.record.name!r} is another: "
            f"{'; '.join(differences)}. Give the same model, or build the index again with this one"
        )
    return given
