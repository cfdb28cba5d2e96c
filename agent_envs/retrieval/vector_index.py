"""Nearest vectors by inner product, with faiss: the kinds of index, their parameters, and how they are opened.

| kind | searches | on disk | exact |
|---|---|---|---|
| flat | every vector | memory-mapped | yes |
| ivf | the ``nprobe`` nearest of ``nlist`` cells | memory-mapped | no |
| ivfpq | as ivf, with vectors compressed to ``pq_m`` bytes | memory-mapped | no |
| hnsw | a graph of neighbours | memory-mapped where faiss can, else read | no |
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from agent_envs.errors import ConfigError, DataError, MissingExtraError
from agent_envs.options import require_choice
from agent_envs.types import Float32Array

Int64Array = NDArray[np.int64]
Parameters = Mapping[str, int]

VECTORS = "vectors.npy"
FAISS_INDEX = "index.faiss"
INVERTED_LISTS, LIST_SIZES = "lists.bin", "sizes.npy"

DENSE_KINDS = ("flat", "ivf", "ivfpq", "hnsw")

_POINTS_PER_CELL = 39  # below this many, k-means has too little to go by (faiss warns)
_BLOCK_ROWS = 2**18
_MIN_PQ_PASSAGES = 256  # a code book has 256 entries


class VectorIndex(Protocol):
    """Finds the nearest vectors. Safe to call from several threads at once."""

    def search(self, queries: Float32Array, top_k: int) -> tuple[Float32Array, Int64Array]:
        """Inner products and rows of the best, ``[Q, top_k]`` each; row -1 where there are fewer."""
        ...


def choose_parameters(kind: str, passages: int, dimension: int, given: Mapping[str, int]) -> dict[str, int]:
    """The parameters of a kind for a corpus of that size, except where they are given.

    Raises:
        ConfigError: a parameter is not one of the kind, out of range, or the corpus is too small for the kind.
    """
    require_choice("kind", kind, DENSE_KINDS)
    chosen = _DEFAULTS[kind](passages, dimension)
    unknown = sorted(set(given) - set(chosen))
    if unknown:
        raise ConfigError(f"{kind} has no parameter {unknown[0]!r}; it has {', '.join(chosen) or 'none'}")
    merged = {**chosen, **given}
    if "nlist" in given and "nprobe" not in given:
        merged["nprobe"] = _probes(given["nlist"])
    for name, value in merged.items():
        if value < 1:
            raise ConfigError(f"{name}: expected at least 1, got {value}")
    if merged.get("nlist", 1) > passages:
        raise ConfigError(f"nlist: expected at most one cell a passage ({passages}), got {merged['nlist']}")
    if kind == "ivfpq" and passages < _MIN_PQ_PASSAGES:
        raise ConfigError(
            f"ivfpq needs {_MIN_PQ_PASSAGES} passages to learn its codes, the corpus has {passages}: flat?"
        )
    if dimension % merged.get("pq_m", 1):
        raise ConfigError(f"pq_m: expected a divisor of the vectors' dimension {dimension}, got {merged['pq_m']}")
    return merged


def _ivf(passages: int, dimension: int) -> dict[str, int]:
    nlist = max(1, min(4 * math.isqrt(passages), passages // _POINTS_PER_CELL))
    return {"nlist": nlist, "nprobe": _probes(nlist)}


def _probes(nlist: int) -> int:
    return min(nlist, max(8, nlist // 32))


def _ivfpq(passages: int, dimension: int) -> dict[str, int]:
    codes = next(m for m in range(max(1, dimension // 4), 0, -1) if dimension % m == 0)
    return {**_ivf(passages, dimension), "pq_m": codes}


def _hnsw(passages: int, dimension: int) -> dict[str, int]:
    return {"m": 32, "ef_construction": 80, "ef_search": 64}


_DEFAULTS: dict[str, Callable[[int, int], dict[str, int]]] = {
    "flat": lambda passages, dimension: {},
    "ivf": _ivf,
    "ivfpq": _ivfpq,
    "hnsw": _hnsw,
}


class FlatVectors:
    """Every vector is compared, a block at a time, so that memory-mapped vectors need not fit into memory."""

    def __init__(self, vectors: Float32Array, block_rows: int = _BLOCK_ROWS) -> None:
        """Searches these vectors, ``[N, dimension]``."""
        self._faiss = import_faiss()
        self._vectors = vectors
        self._block_rows = block_rows

    def search(self, queries: Float32Array, top_k: int) -> tuple[Float32Array, Int64Array]:
        """Inner products and rows of the best, ``[Q, top_k]`` each."""
        scores = np.zeros((len(queries), 0), np.float32)
        rows = np.zeros((len(queries), 0), np.int64)
        for start in range(0, len(self._vectors), self._block_rows):
            block = self._vectors[start : start + self._block_rows]
            k = min(top_k, len(block))
            found, positions = self._faiss.knn(queries, block, k, metric=self._faiss.METRIC_INNER_PRODUCT)
            scores = np.concatenate([scores, found], axis=1)
            rows = np.concatenate([rows, positions + start], axis=1)
            if scores.shape[1] > top_k:
                best = np.argsort(-scores, axis=1, kind="stable")[:, :top_k]
                scores, rows = np.take_along_axis(scores, best, axis=1), np.take_along_axis(rows, best, axis=1)
        return scores, rows


class FaissIndex:
    """An index of faiss that is only read."""

    def __init__(self, index: Any) -> None:
        """Searches this index."""
        self._index = index

    def search(self, queries: Float32Array, top_k: int) -> tuple[Float32Array, Int64Array]:
        """Inner products and rows of the best, ``[Q, top_k]`` each; row -1 where there are fewer."""
        scores, rows = self._index.search(queries, top_k)
        return scores, rows


def open_vectors(folder: Path, kind: str, parameters: Parameters) -> VectorIndex:
    """The index of a folder, memory-mapped where its kind allows.

    Raises:
        MissingExtraError: the extra ``retrieval`` is not installed.
    """
    faiss = import_faiss()
    if kind == "flat":
        return FlatVectors(np.asarray(np.load(folder / VECTORS, mmap_mode="r")))
    if kind == "hnsw":
        index = faiss.read_index(str(folder / FAISS_INDEX), faiss.IO_FLAG_MMAP_IFC)
        index.hnsw.efSearch = parameters["ef_search"]
        return FaissIndex(index)
    return FaissIndex(_open_cells(faiss, folder, parameters["nprobe"]))


def _open_cells(faiss: Any, folder: Path, nprobe: int) -> Any:
    """The learnt cells, with the lists of what is in them mapped from their file."""
    index = faiss.read_index(str(folder / FAISS_INDEX))
    path = folder / INVERTED_LISTS
    sizes = np.load(folder / LIST_SIZES)
    count = int(sizes.sum())
    if len(sizes) != index.nlist or path.stat().st_size != count * (index.code_size + 8):
        raise DataError(f"{folder}: {INVERTED_LISTS} and {LIST_SIZES} do not belong together; build the index again")
    lists = faiss.OnDiskInvertedLists(index.nlist, index.code_size, str(path))
    lists.read_only = True
    lists.set_all_lists_sizes(faiss.swig_ptr(sizes))
    lists.totsize = path.stat().st_size
    lists.do_mmap()
    lists.prefetch_nthread = 0  # else it starts 32 threads for each search
    index.replace_invlists(lists, True)
    lists.this.disown()  # the index frees it
    index.ntotal = count
    index.nprobe = nprobe
    return index


def import_faiss() -> Any:
    """The module faiss.

    Raises:
        MissingExtraError: it is not installed.
    """
    try:
        import faiss
    except ImportError as error:
        raise MissingExtraError('dense retrieval needs faiss: pip install "agent-r1[retrieval]"') from error
    return faiss
