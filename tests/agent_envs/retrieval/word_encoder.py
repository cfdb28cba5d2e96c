"""A real, tiny encoder for tests: a text's vector is the sum of vectors that belong to its words."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Sequence

import numpy as np

from agent_envs.data.records import Passage
from agent_envs.retrieval.bm25 import search_words
from agent_envs.retrieval.manifest import EncoderRecord
from agent_envs.types import Float32Array

DIMENSION = 16


class WordEncoder:
    """Deterministic, quick, and near for texts that share words. Notes the batches that it was asked for."""

    def __init__(self, fingerprint: str = "words", *, broken_word: str = "") -> None:
        self.record = EncoderRecord("words", fingerprint, DIMENSION, "", "")
        self.batches: list[list[str]] = []
        self._broken_word = broken_word
        self._lock = threading.Lock()

    def encode_queries(self, queries: Sequence[str]) -> Float32Array:
        with self._lock:
            self.batches.append(list(queries))
        return np.stack([self.vector(query) for query in queries])

    def encode_passages(self, passages: Sequence[Passage]) -> Float32Array:
        return np.stack([self.vector(f"{passage.title} {passage.text}") for passage in passages])

    def vector(self, text: str) -> Float32Array:
        total = np.full(DIMENSION, 1e-3)
        for word in search_words(text):
            if word == self._broken_word:
                total[0] = np.nan
            seed = int.from_bytes(hashlib.sha256(word.encode()).digest()[:8], "little")
            total += np.random.default_rng(seed).standard_normal(DIMENSION)
        return (total / np.linalg.norm(total)).astype(np.float32)


def made_up_passages(count: int) -> tuple[Passage, ...]:
    """Passages of a few words, no two alike; some titles repeat."""
    words = ["river", "mill", "north", "film", "actor", "born", "house", "élan", "writer", "sea", "music", "king"]
    return tuple(
        Passage(
            f"Title {number % (count - count // 8)}",
            f"{words[number % 12]} {words[number * 5 % 11]} number {number} of {words[number // 7 % 12]}",
        )
        for number in range(count)
    )
