"""Dense retrieval: the passages whose vectors are nearest to the query's."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy as np

from agent_envs.data.records import Passage
from agent_envs.errors import DataError, ToolFailureError
from agent_envs.retrieval.base import Hit, require_top_k
from agent_envs.retrieval.encoder import DEFAULT_ENCODER, Encoder, load_encoder, require_finite
from agent_envs.retrieval.vector_index import FlatVectors, VectorIndex


class DenseRetriever:
    """Ranks passages by the inner product of unit vectors, in [-1, 1]. Threads and environments can share it.

    The queries of one search are encoded as one batch. Equal batches give equal scores; in other company a query's
    scores may differ in the seventh digit, as a matrix product does.
    """

    def __init__(self, passages: Sequence[Passage], encoder: Encoder, vectors: VectorIndex) -> None:
        """Searches the vectors of these passages, which the encoder has made."""
        self._passages = passages
        self._encoder = encoder
        self._vectors = vectors

    def search(self, queries: Sequence[str], top_k: int) -> list[list[Hit]]:
        """The best ``top_k`` passages of each query, best first; of equal ones, the first in the corpus.

        A blank query finds nothing.

        Raises:
            ConfigError: ``top_k`` is below 1.
            ToolFailureError: the encoder gives numbers that are not finite.
        """
        require_top_k(top_k)
        found: list[list[Hit]] = [[] for _ in queries]
        asked = [position for position, query in enumerate(queries) if query.strip()]
        if not asked:
            return found
        texts = [queries[position] for position in asked]
        try:
            vectors = require_finite(self._encoder.encode_queries(texts), texts)
        except DataError as error:
            raise ToolFailureError(str(error)) from error
        scores, rows = self._vectors.search(vectors, min(top_k, len(self._passages)))
        for position, its_scores, its_rows in zip(asked, scores, rows, strict=True):
            order = np.lexsort((its_rows, -its_scores))
            found[position] = [
                Hit(self._passages[int(its_rows[i])], float(its_scores[i])) for i in order if its_rows[i] >= 0
            ]
        return found


def dense_retriever(passages: Sequence[Passage], encoder: str | None = None) -> DenseRetriever:
    """A retriever over passages in memory; their vectors are made once per process.

    Args:
        passages: the corpus, in the order that breaks ties.
        encoder: a sentence-transformers model; None for ``DEFAULT_ENCODER``.

    Raises:
        DataError: there is no passage.
        ConfigError: there is no such model.
        MissingExtraError: the extra ``retrieval`` is not installed.
    """
    return _retriever_of(tuple(passages), encoder or DEFAULT_ENCODER)


@functools.lru_cache(maxsize=8)
def _retriever_of(passages: tuple[Passage, ...], encoder: str) -> DenseRetriever:
    return in_memory(passages, load_encoder(encoder))


def in_memory(passages: Sequence[Passage], encoder: Encoder) -> DenseRetriever:
    """A retriever over passages whose vectors are made now, and compared one by one at each search.

    Raises:
        DataError: there is no passage, or the encoder gives numbers that are not finite.
    """
    if not passages:
        raise DataError("the corpus has no passages: expected at least one to search")
    vectors = require_finite(encoder.encode_passages(passages), [passage.title for passage in passages])
    return DenseRetriever(passages, encoder, FlatVectors(vectors))
