"""The hits that a server has given, for as long as its corpus stays the same."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping

from agent_envs.retrieval.base import Hit

Key = tuple[str, str, int]


class HitCache:
    """Keeps the most recently used hits by corpus, query and number; any thread may use it."""

    def __init__(self, size: int, check_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        """Begins empty, over an unknown corpus.

        Args:
            size: queries to keep; 0 for none.
            check_s: for so long after an answer of the server it is believed to have the same corpus.
            clock: seconds.
        """
        self._size = size
        self._check_s = check_s
        self._clock = clock
        self._guard = threading.Lock()
        self._hits: OrderedDict[Key, tuple[Hit, ...]] = OrderedDict()
        self._corpus = ""
        self._heard = clock()

    def __len__(self) -> int:
        return len(self._hits)

    def lookup(self, queries: Iterable[str], top_k: int) -> dict[str, tuple[Hit, ...]]:
        """What is known of these queries; nothing if it is time to hear from the server."""
        found: dict[str, tuple[Hit, ...]] = {}
        with self._guard:
            if self._clock() - self._heard > self._check_s:
                return found
            for query in queries:
                key = (self._corpus, query, top_k)
                if key in self._hits:
                    self._hits.move_to_end(key)
                    found[query] = self._hits[key]
        return found

    def store(self, corpus: str, hits: Mapping[str, tuple[Hit, ...]], top_k: int) -> None:
        """Keeps an answer; all earlier ones go if the server's corpus has changed."""
        with self._guard:
            if corpus != self._corpus:
                self._hits.clear()
                self._corpus = corpus
            self._heard = self._clock()
            for query, found in hits.items():
                self._hits[corpus, query, top_k] = found
                self._hits.move_to_end((corpus, query, top_k))
            while len(self._hits) > self._size:
                self._hits.popitem(last=False)
