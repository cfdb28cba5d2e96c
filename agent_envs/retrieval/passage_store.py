"""Passages on disk: one file of texts and one of offsets, both memory-mapped, so that no corpus is too large."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import overload

import numpy as np
from numpy.typing import NDArray

from agent_envs.data.records import Passage
from agent_envs.errors import DataError

TEXTS = "passages.bin"
SPANS = "spans.npy"
Int64Array = NDArray[np.int64]


class PassageStore(Sequence[Passage]):
    """The passages of an index folder, read when asked for. Threads may share it.

    ``spans`` is ``[N, 3]``: where in the file of texts a title begins, where it ends and the text begins, and where
    that ends, in bytes.
    """

    def __init__(self, folder: Path) -> None:
        """Opens the two files.

        Raises:
            DataError: the offsets do not belong to the texts.
        """
        self._spans: Int64Array = np.asarray(np.load(folder / SPANS, mmap_mode="r"))
        size = (folder / TEXTS).stat().st_size
        if self._spans.ndim != 2 or self._spans.shape[1] != 3 or len(self._spans) == 0 or self._spans[-1, 2] > size:
            raise DataError(f"{folder}: the offsets in {SPANS} do not belong to {TEXTS}; build the index again")
        self._texts = np.asarray(np.memmap(folder / TEXTS, np.uint8, "r")) if size else np.zeros(0, np.uint8)

    def __len__(self) -> int:
        return len(self._spans)

    @overload
    def __getitem__(self, index: int) -> Passage: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Passage]: ...
    def __getitem__(self, index: int | slice) -> Passage | Sequence[Passage]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        begin, middle, end = (int(offset) for offset in self._spans[index])
        return Passage(self._text(begin, middle), self._text(middle, end))

    def _text(self, begin: int, end: int) -> str:
        return self._texts[begin:end].tobytes().decode()


def passages_sha256(passages: Sequence[Passage]) -> str:
    """A hash of titles and texts in order; how they are stored does not matter."""
    digest = hashlib.sha256()
    for passage in passages:
        title, text = passage.title.encode(), passage.text.encode()
        digest.update(len(title).to_bytes(8, "little") + len(text).to_bytes(8, "little") + title + text)
    return digest.hexdigest()


def key_of(title: bytes, text: bytes) -> int:
    """64 bits that two equal passages share, and two others hardly ever."""
    salt = len(title).to_bytes(8, "little")  # "ab" + "c" is not "a" + "bc"
    return int.from_bytes(hashlib.blake2b(title + text, digest_size=8, salt=salt).digest(), "little")


def without_repetitions(spans: Int64Array, keys: NDArray[np.uint64], texts: Path) -> Int64Array:
    """The spans of passages that did not occur before; equal keys count only where the bytes are equal too."""
    order = np.argsort(keys, kind="stable")
    repeated = np.flatnonzero(keys[order][1:] == keys[order][:-1])
    if len(repeated) == 0:
        return spans
    keep = np.ones(len(spans), dtype=np.bool_)
    with texts.open("rb") as file:
        for group in _runs(repeated):
            seen: set[tuple[bytes, int]] = set()
            for position in order[group[0] : group[-1] + 2]:
                begin, middle, end = (int(offset) for offset in spans[position])
                content = os.pread(file.fileno(), end - begin, begin), middle - begin
                keep[position] = content not in seen
                seen.add(content)
    return spans[keep]


def _runs(positions: NDArray[np.intp]) -> Iterator[NDArray[np.intp]]:
    """Sorted positions, cut where one is left out."""
    cuts = [0, *(np.flatnonzero(np.diff(positions) > 1) + 1).tolist(), len(positions)]
    return (positions[a:b] for a, b in pairwise(cuts))
