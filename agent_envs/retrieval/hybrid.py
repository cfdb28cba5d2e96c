"""Several retrievers as one, by reciprocal rank fusion."""

from __future__ import annotations

import math
from collections.abc import Sequence

from agent_envs.data.records import Passage
from agent_envs.errors import ConfigError
from agent_envs.retrieval.base import Hit, Retriever, require_top_k

RANK_OFFSET = 60


class HybridRetriever:
    """Fuses rankings, whatever their scores mean.

    A passage scores, summed over the retrievers that found it:

        1 / (60 + its rank there), ranks from 1

    Source: Cormack, Clarke & Büttcher 2009, "Reciprocal rank fusion outperforms Condorcet ...", section 2.
    """

    def __init__(self, retrievers: Sequence[Retriever], depth: int = 100) -> None:
        """Fuses these retrievers.

        Args:
            retrievers: two or more; passages that they share are told by title and text.
            depth: how many hits each one is asked for at least.

        Raises:
            ConfigError: there are fewer than two.
        """
        if len(retrievers) < 2:
            raise ConfigError(f"a hybrid fuses at least 2 retrievers, got {len(retrievers)}")
        self._retrievers = tuple(retrievers)
        self._depth = depth

    def search(self, queries: Sequence[str], top_k: int) -> list[list[Hit]]:
        """The best ``top_k`` passages of each query, best first.

        Of equal ones, the one first that stands higher in some ranking, then the one of an earlier retriever.

        Raises:
            ConfigError: ``top_k`` is below 1.
        """
        require_top_k(top_k)
        depth = max(top_k, self._depth)
        rankings = [retriever.search(queries, depth) for retriever in self._retrievers]
        return [_fused(found)[:top_k] for found in zip(*rankings, strict=True)]


def _fused(rankings: Sequence[Sequence[Hit]]) -> list[Hit]:
    shares: dict[Passage, list[float]] = {}
    best: dict[Passage, tuple[int, int]] = {}
    for number, hits in enumerate(rankings):
        for rank, passage in enumerate(dict.fromkeys(hit.passage for hit in hits), start=1):
            shares.setdefault(passage, []).append(1 / (RANK_OFFSET + rank))
            best[passage] = min(best.get(passage, (rank, number)), (rank, number))
    scores = {passage: math.fsum(parts) for passage, parts in shares.items()}  # exact, so that ties are ties
    ranked = sorted(scores, key=lambda passage: (-scores[passage], best[passage]))
    return [Hit(passage, scores[passage]) for passage in ranked]
