"""A search server in the protocol of GEM's ``SearchTool``, over this project's BM25; ``bench_vs_gem.py`` starts it.

It is made of what GEM's own server (``gem/tools/search_engine/retrieval_server.py``) is made of: mosec with msgpack,
one worker, batches of requests that come together. ``CORPUS`` in the environment is the file of passages.
"""

import os
from typing import Any

from mosec import Runtime, Server, Worker
from mosec.mixin import TypedMsgPackMixin
from msgspec import Struct

from agent_envs.data.corpus import read_corpus
from agent_envs.retrieval import Bm25Retriever

# No ``from __future__ import annotations``: mosec reads the types of ``forward``.


class Query(Struct):
    """What GEM's tool sends."""

    query: str
    topk: int
    return_scores: bool = True


class Found(Struct):
    """What GEM's tool reads."""

    result: list[dict[str, Any]]


class SearchWorker(TypedMsgPackMixin, Worker):  # type: ignore[misc]
    """Searches for all requests of a batch."""

    def __init__(self) -> None:
        super().__init__()
        self._retriever = Bm25Retriever(tuple(read_corpus(os.environ["CORPUS"])))

    def forward(self, requests: list[Query]) -> list[Found]:
        """One result per request, in order."""
        hits = self._retriever.search([request.query for request in requests], requests[0].topk)
        return [
            Found(
                [
                    {"document": {"contents": f"{hit.passage.title}\n{hit.passage.text}"}, "score": hit.score}
                    for hit in found
                ]
            )
            for found in hits
        ]


if __name__ == "__main__":
    server = Server()
    server.register_runtime({"/retrieve": [Runtime(SearchWorker, max_batch_size=64, max_wait_time=2)]})
    server.run()
