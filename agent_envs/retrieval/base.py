"""What every retriever is: queries in, ranked passages out."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Protocol

from agent_envs.data.records import Passage
from agent_envs.errors import ConfigError


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


def require_top_k(top_k: int) -> None:
    """Refuses to search for fewer than one passage.

    Raises:
        ConfigError: ``top_k`` is below 1.
    """
    if top_k < 1:
        raise ConfigError(f"top_k: expected at least 1, got {top_k}")
