"""What a retrieval server is given: an index, and limits."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from agent_envs.errors import ConfigError
from agent_envs.retrieval.base import Retriever
from agent_envs.retrieval.batching import BatchRules
from agent_envs.retrieval.index import load_index
from agent_envs.retrieval.manifest import read_manifest


@dataclass(frozen=True, slots=True)
class ServedIndex:
    """A retriever and what clients are told of it.

    Attributes:
        retriever: searches; called from one thread at a time.
        kind: such as "bm25".
        corpus_hash: the same for the same passages; clients drop what they have cached when it changes. "" if unknown.
        count: passages.
    """

    retriever: Retriever
    kind: str = ""
    corpus_hash: str = ""
    count: int = 0


def open_folder(folder: str | Path, encoder: str | None = None) -> ServedIndex:
    """The index of a folder that ``agentr1 index build`` wrote.

    Args:
        folder: of the index.
        encoder: where the model of a dense index is, if not where the manifest says.

    Raises:
        DataError: the folder is no finished index, or is damaged.
        MissingExtraError: the index is dense, and the extra ``retrieval`` is not installed.
    """
    manifest = read_manifest(folder)
    return ServedIndex(load_index(folder, encoder), manifest.kind, manifest.corpus_sha256, manifest.passages)


@dataclass(frozen=True, slots=True)
class ServerOptions:
    """Limits of a retrieval server.

    Attributes:
        batching: how searches are joined.
        default_top_k: passages per query where a request names no ``topk``, >= 1.
        max_top_k: the most that a request may ask for.
        max_queries: in one request; at most ``batching.max_queue``.
        max_query_chars: in one query.
        max_body_bytes: of a request.
        search_timeout_s: a request that is not answered by then gets status 504.
        drain_s: how long a stopping server may take over the requests that it has.
    """

    batching: BatchRules = field(default_factory=BatchRules)
    default_top_k: int = 3
    max_top_k: int = 100
    max_queries: int = 1024
    max_query_chars: int = 8192
    max_body_bytes: int = 16 * 2**20
    search_timeout_s: float = 30.0
    drain_s: float = 10.0

    def __post_init__(self) -> None:
        """Checks the ranges.

        Raises:
            ConfigError: a value is out of range, or two contradict each other.
        """
        if not 1 <= self.default_top_k <= self.max_top_k:
            raise ConfigError(f"default_top_k is in [1, max_top_k={self.max_top_k}], not {self.default_top_k}")
        if not 1 <= self.max_queries <= self.batching.max_queue:
            raise ConfigError(
                f"max_queries is in [1, max_queue={self.batching.max_queue}], as a request must fit into the queue, "
                f"not {self.max_queries}"
            )
        if self.max_query_chars < 1 or self.max_body_bytes < 1:
            raise ConfigError(f"max_query_chars and max_body_bytes are >= 1, not {self}")
        if not self.search_timeout_s > 0 or not self.drain_s > 0:
            raise ConfigError(f"search_timeout_s and drain_s are > 0, not {self.search_timeout_s} and {self.drain_s}")
