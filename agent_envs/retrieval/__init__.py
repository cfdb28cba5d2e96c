"""Retrievers by name, each made from the passages to search, and opened from an index folder or a server."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from agent_envs.data.records import Passage
from agent_envs.errors import ConfigError
from agent_envs.registry import Registry
from agent_envs.retrieval.base import Retriever
from agent_envs.retrieval.bm25 import Bm25Retriever
from agent_envs.retrieval.corpus import corpus_of
from agent_envs.retrieval.dense import dense_retriever
from agent_envs.retrieval.hybrid import HybridRetriever
from agent_envs.retrieval.index import load_index, open_index


class RetrieverMaker(Protocol):
    """Makes a retriever of passages."""

    def __call__(self, passages: Sequence[Passage], encoder: str | None = None) -> Retriever:
        """A retriever over these passages; ``encoder`` names a sentence-transformers model, where one is needed."""
        ...


def _bm25(passages: Sequence[Passage], encoder: str | None = None) -> Retriever:
    if encoder is not None:
        raise ConfigError(f'encoder={encoder!r} means nothing to retriever="bm25"; choose "dense" or "hybrid"')
    return Bm25Retriever(passages)


def _hybrid(passages: Sequence[Passage], encoder: str | None = None) -> Retriever:
    return HybridRetriever([Bm25Retriever(passages), dense_retriever(passages, encoder)])


RETRIEVERS: Registry[RetrieverMaker] = Registry("retriever")
RETRIEVERS.register("bm25", _bm25)
RETRIEVERS.register("dense", dense_retriever)
RETRIEVERS.register("hybrid", _hybrid)

__all__ = [
    "RETRIEVERS",
    "Bm25Retriever",
    "HybridRetriever",
    "Retriever",
    "RetrieverMaker",
    "corpus_of",
    "load_index",
    "open_index",
]
