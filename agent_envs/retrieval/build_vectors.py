"""Builds the dense kinds of index, piece by piece: vectors first, then cells or a graph over them."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from agent_envs.errors import ConfigError
from agent_envs.retrieval.encoder import Encoder, require_finite
from agent_envs.retrieval.journal import Journal
from agent_envs.retrieval.manifest import read_manifest
from agent_envs.retrieval.passage_store import PassageStore, passages_sha256
from agent_envs.retrieval.progress import Progress
from agent_envs.retrieval.vector_index import FAISS_INDEX, INVERTED_LISTS, LIST_SIZES, VECTORS, Parameters, import_faiss
from agent_envs.types import Float32Array

_ENCODE = "encode"
_TRAIN = "train"
_ADD = "add"
_TRAINED = "trained.tmp"
_SHARD = "shard-{}.tmp"
_TRAIN_PER_CELL = 40  # vectors that k-means learns from; more hardly help, and cost time
_TRAIN_AT_LEAST = 2**14
_TRAIN_BYTES = 2**29


@dataclass(frozen=True, slots=True)
class VectorFile:
    """Vectors on disk, read in pieces by plain reads: mapped pages would count as this process's memory."""

    path: Path

    @property
    def shape(self) -> tuple[int, int]:
        """How many vectors, of which dimension."""
        rows, dimension = np.load(self.path, mmap_mode="r").shape
        return rows, dimension

    def read(self, start: int, stop: int) -> Float32Array:
        """The vectors of these rows."""
        rows, dimension = self.shape
        count = min(stop, rows) - start
        header = self.path.stat().st_size - rows * dimension * 4
        flat: Float32Array = np.fromfile(
            self.path, np.float32, count * dimension, offset=header + start * dimension * 4
        )
        return flat.reshape(count, dimension)

    def sample(self, count: int) -> Float32Array:
        """As many vectors, evenly spread over all."""
        rows, dimension = self.shape
        sample = np.empty((min(count, rows), dimension), np.float32)
        positions = np.arange(len(sample), dtype=np.int64) * rows // len(sample)
        block = 2**16
        for start in range(0, rows, block):
            here = np.flatnonzero((positions >= start) & (positions < start + block))
            if len(here):
                sample[here] = self.read(start, start + block)[positions[here] - start]
        return sample


def encode_passages(
    journal: Journal, passages: PassageStore, encoder: Encoder, chunk_rows: int, progress: Progress
) -> VectorFile:
    """Writes the vectors of all passages.

    Raises:
        DataError: the encoder gives numbers that are not finite.
    """
    total = len(passages)
    if not journal.is_done(_ENCODE):
        with journal.appending(_ENCODE, [VECTORS]) as files:
            start = journal.rows(_ENCODE)
            if start == 0:
                header = {"descr": "<f4", "fortran_order": False, "shape": (total, encoder.record.dimension)}
                np.lib.format.write_array_header_1_0(files[0], header)  # type: ignore[no-untyped-call]
            while start < total:
                progress(_ENCODE, start, total)
                chunk = passages[start : start + chunk_rows]
                vectors = require_finite(encoder.encode_passages(chunk), [passage.title for passage in chunk])
                files[0].write(np.ascontiguousarray(vectors, dtype="<f4").tobytes())
                start += len(chunk)
                journal.checkpoint(_ENCODE, start, files)
        journal.finish(_ENCODE)
    progress(_ENCODE, total, total)
    return VectorFile(journal.folder / VECTORS)


def copy_vectors(journal: Journal, passages: PassageStore, folder: Path) -> VectorFile:
    """Takes the vectors of a finished flat index.

    Raises:
        ConfigError: it was built from another corpus.
    """
    theirs = read_manifest(folder).corpus_sha256
    if theirs != passages_sha256(passages):
        raise ConfigError(f"{folder}: its vectors belong to another corpus; give the index of this one, or a model")
    if not journal.is_done(_ENCODE):
        shutil.copyfile(folder / VECTORS, journal.folder / VECTORS)
        journal.finish(_ENCODE)
    return VectorFile(journal.folder / VECTORS)


def build_cells(
    journal: Journal, vectors: VectorFile, parameters: Parameters, shard_rows: int, progress: Progress
) -> list[str]:
    """Builds IVF or IVF-PQ: cells are learnt from a sample, filled shard by shard, and merged on disk.

    Returns:
        The names of the finished files.
    """
    faiss = import_faiss()
    folder = journal.folder
    if not journal.is_done(_TRAIN):
        progress(_TRAIN, 0, 1)
        _write(faiss, _trained(faiss, vectors, parameters), folder / _TRAINED)
        journal.finish(_TRAIN)
        progress(_TRAIN, 1, 1)
    rows = vectors.shape[0]
    starts = range(0, rows, shard_rows)
    for number, start in enumerate(starts):
        if journal.is_done(f"{_ADD} {number}"):
            continue
        progress(_ADD, start, rows)
        index = faiss.read_index(str(folder / _TRAINED))
        block = vectors.read(start, start + shard_rows)
        index.add_with_ids(block, np.arange(start, start + len(block), dtype=np.int64))
        _write(faiss, index, folder / _SHARD.format(number))
        journal.finish(f"{_ADD} {number}")
    progress(_ADD, rows, rows)
    _merge(faiss, folder, [folder / _SHARD.format(number) for number in range(len(starts))])
    return [FAISS_INDEX, INVERTED_LISTS, LIST_SIZES]


def build_graph(journal: Journal, vectors: VectorFile, parameters: Parameters, progress: Progress) -> list[str]:
    """Builds HNSW, in memory: 4 bytes a number and 8 m bytes a vector. On one thread, since its order of work shows.

    Returns:
        The names of the finished files.
    """
    faiss = import_faiss()
    rows, dimension = vectors.shape
    index = faiss.IndexHNSWFlat(dimension, parameters["m"], faiss.METRIC_INNER_PRODUCT)
    index.hnsw.efConstruction = parameters["ef_construction"]
    threads = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(1)
    try:
        block = 2**12
        for start in range(0, rows, block):
            progress(_ADD, start, rows)
            index.add(vectors.read(start, start + block))
    finally:
        faiss.omp_set_num_threads(threads)
    progress(_ADD, rows, rows)
    _write(faiss, index, journal.folder / FAISS_INDEX)
    return [FAISS_INDEX]


def _trained(faiss: Any, vectors: VectorFile, parameters: Parameters) -> Any:
    dimension = vectors.shape[1]
    nlist = parameters["nlist"]
    coarse = faiss.IndexFlatIP(dimension)
    if "pq_m" in parameters:
        index = faiss.IndexIVFPQ(coarse, dimension, nlist, parameters["pq_m"], 8, faiss.METRIC_INNER_PRODUCT)
        index.pq.cp.min_points_per_centroid = 1
    else:
        index = faiss.IndexIVFFlat(coarse, dimension, nlist, faiss.METRIC_INNER_PRODUCT)
    index.cp.min_points_per_centroid = 1  # the sizes were chosen with care: no warnings on stderr
    wanted = max(nlist * _TRAIN_PER_CELL, _TRAIN_AT_LEAST)
    index.train(vectors.sample(min(wanted, max(_TRAIN_BYTES // (4 * dimension), nlist))))
    return index


def _merge(faiss: Any, folder: Path, shards: list[Path]) -> None:
    """Writes the cells one behind the other, each its vectors' codes and then their rows, as faiss maps them."""
    parts = [faiss.read_index(str(shard), faiss.IO_FLAG_MMAP) for shard in shards]
    sizes = [[part.invlists.list_size(cell) for part in parts] for cell in range(parts[0].nlist)]
    with (folder / INVERTED_LISTS).open("wb") as file:
        for cell, its_sizes in enumerate(sizes):
            filled = [(part.invlists, size) for part, size in zip(parts, its_sizes, strict=True) if size]
            for lists, size in filled:
                file.write(faiss.rev_swig_ptr(lists.get_codes(cell), size * lists.code_size).tobytes())
            for lists, size in filled:
                file.write(faiss.rev_swig_ptr(lists.get_ids(cell), size).tobytes())
    np.save(folder / LIST_SIZES, np.array([sum(its_sizes) for its_sizes in sizes], np.uint64))
    shutil.copyfile(folder / _TRAINED, folder / FAISS_INDEX)


def _write(faiss: Any, index: Any, path: Path) -> None:
    fresh = path.with_name(path.name + ".new")
    faiss.write_index(index, str(fresh))
    os.replace(fresh, path)
