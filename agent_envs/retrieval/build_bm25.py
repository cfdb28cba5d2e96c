"""Builds a BM25 index on disk in pieces, and opens it memory-mapped: the numbers are those that ``bm25s`` computes.

First the words of each passage are counted; then, with the counts of all passages known, the scores of each word are
put in their place. Memory holds the vocabulary and one block of postings (a word of a passage), never all of them.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from agent_envs.errors import DataError
from agent_envs.retrieval.bm25 import Bm25Retriever, empty_index, indexed_words
from agent_envs.retrieval.journal import Journal
from agent_envs.retrieval.passage_store import PassageStore
from agent_envs.retrieval.progress import Progress
from agent_envs.types import Float32Array, Int32Array

WORDS = "words.txt"
# under the names that bm25s gives them: scores, the passage of each, and where the scores of each word begin
SCORES, COLUMNS, STARTS = "data.csc.index.npy", "indices.csc.index.npy", "indptr.csc.index.npy"

_COUNT, _SCORE = "count words", "score words"
_POSTINGS, _LENGTHS = "postings.tmp", "lengths.tmp"
_BLOCK_PASSAGES = 2**18

Int64Array = NDArray[np.int64]
Float64Array = NDArray[np.float64]


def build_bm25(
    journal: Journal, passages: PassageStore, k1: float, b: float, chunk_rows: int, progress: Progress
) -> list[str]:
    """Builds the index of these passages.

    Returns:
        The names of the finished files.
    """
    if not journal.is_done(_COUNT):
        _count_words(journal, passages, chunk_rows, progress)
        journal.finish(_COUNT)
    names = [WORDS]
    if (journal.folder / WORDS).stat().st_size:
        _score_words(_Counts(journal.folder), k1, b, progress)
        names += [SCORES, COLUMNS, STARTS]
    return names


def open_bm25(folder: Path, passages: PassageStore, k1: float, b: float) -> Bm25Retriever:
    """The retriever over an index on disk; of its files, only the vocabulary is read into memory.

    Raises:
        DataError: the files do not belong together.
    """
    word_ids = _read_words(folder)
    if not word_ids:
        return Bm25Retriever.over(None, {}, passages)
    index = empty_index(k1, b)
    index.load_scores(folder, num_docs=len(passages), mmap=True)
    index.nonoccurrence_array = None  # other kinds of BM25 have one
    index.scores = {name: np.asarray(value) if name != "num_docs" else value for name, value in index.scores.items()}
    if len(index.scores["indptr"]) != len(word_ids) + 1:
        raise DataError(f"{folder}: {STARTS} does not belong to {WORDS}; build the index again")
    return Bm25Retriever.over(index, word_ids, passages)


def _read_words(folder: Path) -> dict[str, int]:
    with (folder / WORDS).open(encoding="utf-8", newline="\n") as file:
        return {line[:-1]: number for number, line in enumerate(file)}


def _count_words(journal: Journal, passages: PassageStore, chunk_rows: int, progress: Progress) -> None:
    """Writes the vocabulary, a pair (word, count) for each word of a passage, and two lengths for each passage."""
    total = len(passages)
    with journal.appending(_COUNT, [WORDS, _POSTINGS, _LENGTHS]) as files:
        words, postings, lengths = files
        word_ids = _read_words(journal.folder)
        start = journal.rows(_COUNT)
        while start < total:
            progress(_COUNT, start, total)
            pairs: list[tuple[int, int]] = []
            sizes: list[tuple[int, int]] = []
            fresh: list[str] = []
            chunk = passages[start : start + chunk_rows]
            for passage in chunk:
                found = indexed_words(passage)
                counts = Counter(found)
                fresh += (new := [word for word in counts if word not in word_ids])
                word_ids.update(zip(new, range(len(word_ids), len(word_ids) + len(new)), strict=True))
                pairs += [(word_ids[word], count) for word, count in counts.items()]
                sizes.append((len(counts), len(found)))
            words.write("".join(f"{word}\n" for word in fresh).encode())
            postings.write(np.asarray(pairs, "<i4").tobytes())
            lengths.write(np.asarray(sizes, "<i4").tobytes())
            start += len(chunk)
            journal.checkpoint(_COUNT, start, files)
    progress(_COUNT, total, total)


@dataclass(frozen=True, slots=True)
class _Block:
    """The postings of some passages."""

    columns: Int32Array  # the passage of each
    words: Int32Array
    counts: Int32Array
    lengths: Int32Array  # words of its passage


class _Counts:
    """The counts on disk."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.vocabulary = len(_read_words(folder))
        self._lengths: Int32Array = np.fromfile(folder / _LENGTHS, "<i4").reshape(-1, 2)
        self.passages = len(self._lengths)
        self.mean_length = self._lengths[:, 1].mean()

    def blocks(self) -> Iterator[_Block]:
        """All postings, by passages."""
        offset = 0
        for start in range(0, self.passages, _BLOCK_PASSAGES):
            lengths = self._lengths[start : start + _BLOCK_PASSAGES]
            here = int(lengths[:, 0].sum())
            pairs = np.fromfile(self.folder / _POSTINGS, "<i4", 2 * here, offset=8 * offset).reshape(-1, 2)
            columns = np.arange(start, start + len(lengths), dtype=np.int32)
            yield _Block(
                np.repeat(columns, lengths[:, 0]), pairs[:, 0], pairs[:, 1], np.repeat(lengths[:, 1], lengths[:, 0])
            )
            offset += here

    def passages_with(self) -> Int64Array:
        """How many passages have each word."""
        totals = np.zeros(self.vocabulary, np.int64)
        for block in self.blocks():
            totals += np.bincount(block.words, minlength=self.vocabulary)
        return totals


def _score_words(counts: _Counts, k1: float, b: float, progress: Progress) -> None:
    """Puts the scores of each word together, those of an earlier passage first; begins anew after a kill."""
    progress(_SCORE, 0, counts.passages)
    frequencies = counts.passages_with()
    weights = _word_weights(frequencies, counts.passages)
    starts = np.concatenate([[0], np.cumsum(frequencies)]).astype(np.int64)
    np.save(counts.folder / STARTS, starts)
    size = int(starts[-1])
    scores = _mapped(counts.folder / SCORES, np.float32, size)
    columns = _mapped(counts.folder / COLUMNS, np.int32, size)
    heads = starts[:-1].copy()
    for block in counts.blocks():
        progress(_SCORE, int(block.columns[0]) if len(block.columns) else 0, counts.passages)
        order = np.argsort(block.words, kind="stable")
        words = block.words[order]
        here = np.bincount(words, minlength=counts.vocabulary)
        firsts = np.cumsum(here) - here
        places = heads[words] + np.arange(len(words)) - firsts[words]
        scores[places] = _posting_scores(block, weights, counts.mean_length, k1, b)[order]
        columns[places] = block.columns[order]
        heads += here
    scores.flush()
    columns.flush()
    progress(_SCORE, counts.passages, counts.passages)


def _mapped(path: Path, kind: type[np.generic], size: int) -> Any:
    return np.lib.format.open_memmap(path, "w+", kind, (size,))  # type: ignore[no-untyped-call]


def _word_weights(frequencies: Int64Array, passages: int) -> Float32Array:
    """ln(1 + (N - df + 0.5) / (df + 0.5)) of each word; ``math.log``, since numpy's may differ in the last digit."""
    return np.array([math.log(1 + (passages - df + 0.5) / (df + 0.5)) for df in frequencies.tolist()], np.float32)


def _posting_scores(block: _Block, weights: Float32Array, mean_length: np.float64, k1: float, b: float) -> Float32Array:
    """The scores, in the same steps and precisions as ``bm25s`` takes: doubles until the last one."""
    counts = block.counts.astype(np.float32)
    saturation: Float64Array = counts / (k1 * ((1 - b) + b * block.lengths / mean_length) + counts)
    return (weights[block.words] * saturation).astype(np.float32)
