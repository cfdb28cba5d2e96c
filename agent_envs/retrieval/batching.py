"""Dynamic batching: the searches of many requests, joined into batches for one retriever.

A retriever is called from one thread, a batch at a time. What arrives while it works makes up the next batch, so that
under load the batches grow by themselves; ``max_wait_ms`` only matters to a request that finds the retriever idle.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field

from agent_envs.errors import AgentEnvError, ConfigError
from agent_envs.retrieval.base import Hit

SearchFunction = Callable[[Sequence[str], int], list[list[Hit]]]


class QueueFullError(AgentEnvError):
    """So many queries wait already that a request was turned away."""


class SearchFailedError(AgentEnvError):
    """The retriever failed at a request; the message names what it raised."""


class BatcherClosedError(AgentEnvError):
    """A request came, or still waited, when the batcher was closed."""


@dataclass(frozen=True, slots=True)
class BatchRules:
    """How requests are joined.

    Attributes:
        max_batch: queries in one call of the retriever, >= 1; 1 turns batching off.
        max_wait_ms: how long a request may wait for company, >= 0.
        max_queue: queries that may wait, >= 1; a request beyond that is turned away.
    """

    max_batch: int = 64
    max_wait_ms: float = 2.0
    max_queue: int = 4096

    def __post_init__(self) -> None:
        """Checks the ranges.

        Raises:
            ConfigError: a value is out of range.
        """
        if self.max_batch < 1 or self.max_queue < 1 or not 0 <= self.max_wait_ms <= 60_000:
            raise ConfigError(f"max_batch and max_queue are >= 1 and max_wait_ms is in [0, 60000], not {self}")


@dataclass(slots=True, eq=False)
class _Request:
    """Queries of one caller; they may be spread over several batches, in order."""

    queries: tuple[str, ...]
    top_k: int
    arrived: float
    future: Future[list[list[Hit]]] = field(default_factory=Future)
    hits: list[list[Hit]] = field(default_factory=list)
    taken: int = 0

    @property
    def left(self) -> int:
        return len(self.queries) - self.taken

    def is_wanted(self) -> bool:
        """False where the caller has gone, or an earlier batch has failed."""
        if self.future.done():
            return False
        return self.taken > 0 or self.future.set_running_or_notify_cancel()

    def take(self, room: int) -> tuple[str, ...]:
        queries = self.queries[self.taken : self.taken + room]
        self.taken += len(queries)
        return queries

    def add(self, hits: Sequence[list[Hit]]) -> None:
        self.hits += hits
        if len(self.hits) == len(self.queries):
            self.future.set_result(self.hits)


@dataclass(frozen=True, slots=True)
class _Share:
    """A request's part in a batch."""

    request: _Request
    queries: tuple[str, ...]


def _unobserved(size: int, seconds: float) -> None:
    """Looks away."""


class DynamicBatcher:
    """Takes requests from any thread and gives each its own hits."""

    def __init__(
        self,
        search: SearchFunction,
        rules: BatchRules = BatchRules(),
        observe: Callable[[int, float], None] = _unobserved,
    ) -> None:
        """Starts the thread that searches.

        Args:
            search: of the retriever.
            rules: how requests are joined.
            observe: told of each batch: its queries, and the seconds that the search took.
        """
        self._search = search
        self._rules = rules
        self._observe = observe
        self._changed = threading.Condition()
        self._pending: deque[_Request] = deque()
        self._depth = 0
        self._busy_since: float | None = None
        self._closed = False
        # A daemon: a retriever that hangs must not keep the process from ending.
        self._thread = threading.Thread(target=self._serve, name="retrieval-batches", daemon=True)
        self._thread.start()

    @property
    def depth(self) -> int:
        """Queries that wait for a batch."""
        return self._depth

    @property
    def busy_s(self) -> float:
        """For how long the present search has been running; 0 between searches."""
        since = self._busy_since
        return 0.0 if since is None else time.monotonic() - since

    def submit(self, queries: Sequence[str], top_k: int) -> Future[list[list[Hit]]]:
        """Queues a request.

        Its future gives one list of hits per query, or raises ``SearchFailedError`` if the retriever failed at them.

        Raises:
            QueueFullError: there is no room for that many queries.
            BatcherClosedError: the batcher is closed.
        """
        request = _Request(tuple(queries), top_k, time.monotonic())
        if not request.queries:
            request.future.set_result([])
            return request.future
        with self._changed:
            if self._closed:
                raise BatcherClosedError("the server is stopping: no search is taken any more")
            if self._depth + len(request.queries) > self._rules.max_queue:
                raise QueueFullError(f"{self._depth} queries wait already, of at most {self._rules.max_queue}")
            self._pending.append(request)
            self._depth += len(request.queries)
            if len(self._pending) == 1 or self._depth >= self._rules.max_batch:
                self._changed.notify()
        return request.future

    def close(self, timeout_s: float | None = None) -> bool:
        """Takes nothing more and finishes what waits; False where that took too long, and the rest was failed."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        self._thread.join(timeout_s)
        with self._changed:
            dropped, self._pending = self._pending, deque()
            self._depth = 0
        for request in dropped:
            if request.is_wanted():
                request.future.set_exception(BatcherClosedError("the server stopped before it came to this search"))
        return not self._thread.is_alive()

    def _serve(self) -> None:
        while (batch := self._next_batch()) is not None:
            self._run(batch)

    def _next_batch(self) -> list[_Share] | None:
        """Waits for requests, and for company for the oldest; None once closed and empty."""
        with self._changed:
            while True:
                if not self._pending and self._closed:
                    return None
                if not self._pending:
                    self._changed.wait()
                    continue
                left = self._pending[0].arrived + self._rules.max_wait_ms / 1e3 - time.monotonic()
                if left <= 0 or self._depth >= self._rules.max_batch or self._closed:
                    return self._take()
                self._changed.wait(left)

    def _take(self) -> list[_Share]:
        """The oldest requests that ask for the same ``top_k`` as the first, up to a full batch.

        Only equal ones go together, as approximate indexes may rank differently where they look for more.
        """
        top_k, room = self._pending[0].top_k, self._rules.max_batch
        shares: list[_Share] = []
        others: deque[_Request] = deque()
        while self._pending and room:
            request = self._pending.popleft()
            if request.top_k != top_k:
                others.append(request)
            elif not request.is_wanted():
                self._depth -= request.left
            else:
                shares.append(_Share(request, request.take(room)))
                room -= len(shares[-1].queries)
                self._depth -= len(shares[-1].queries)
                if request.left:
                    others.append(request)
        others.extend(self._pending)
        self._pending = others
        return shares

    def _run(self, shares: Sequence[_Share]) -> None:
        """Searches for a batch; where that fails, for one request after the other, so that only its cause fails."""
        if not shares:
            return
        queries = [query for share in shares for query in share.queries]
        try:
            hits = self._timed(queries, shares[0].request.top_k)
        except BaseException as error:  # a retriever that calls sys.exit must not end the thread
            if len(shares) == 1:
                failure = SearchFailedError(f"{type(error).__name__}: {error}")
                failure.__cause__ = error  # not raised itself: futures and event loops have plans for some types
                shares[0].request.future.set_exception(failure)
                return
            for share in shares:
                self._run([share])
            return
        at = 0
        for share in shares:
            share.request.add(hits[at : at + len(share.queries)])
            at += len(share.queries)

    def _timed(self, queries: Sequence[str], top_k: int) -> list[list[Hit]]:
        start = self._busy_since = time.monotonic()
        try:
            hits = self._search(queries, top_k)
        finally:
            self._busy_since = None
            self._observe(len(queries), time.monotonic() - start)
        if len(hits) != len(queries):
            raise RuntimeError(f"the retriever gave {len(hits)} lists of hits for {len(queries)} queries")
        return hits
