"""What every retriever is: queries in, ranked passages out."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Protocol

from agent_envs.data.records import Passage


@dataclass(frozen=True, slots=True)
class Hit:
    """A passage found and how well it matched (higher is better; the scale is the retriever's own)."""

    passage: Passage
    score: float


class Retriever(Hashable, Protocol):
    """Finds passages. Safe to call from several threads at once."""

    def search(self, queries: Sequence[str], top_k: int) -> list[list[Hit]]:
        """The best ``top_k`` passages of each query, best first.

        A query that matches nothing gives a shorter or empty list. The same queries always give the same hits.
        """
        ...
