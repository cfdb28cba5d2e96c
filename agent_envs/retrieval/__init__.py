"""Retrievers by name, each made from the passages to search."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from agent_envs.data.records import Passage
from agent_envs.registry import Registry
from agent_envs.retrieval.base import Retriever
from agent_envs.retrieval.bm25 import Bm25Retriever
from agent_envs.retrieval.corpus import corpus_of

RETRIEVERS: Registry[Callable[[Sequence[Passage]], Retriever]] = Registry("retriever")
RETRIEVERS.register("bm25", Bm25Retriever)

__all__ = ["RETRIEVERS", "Bm25Retriever", "corpus_of"]
