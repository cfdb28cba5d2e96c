"""A retriever that asks a server over HTTP: ours, or any that speaks the protocol of Search-R1's.

Whatever the server does, a search ends by its deadline, with hits that fit it or with a ``RetrievalError``: on that the
one episode that searched ends as truncated, and the run goes on.
"""

from __future__ import annotations

import json
import os
import random
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from agent_envs.errors import ConfigError, MissingExtraError, RetrievalError
from agent_envs.retrieval.base import Hit
from agent_envs.retrieval.client_breaker import CircuitBreaker, Verdict
from agent_envs.retrieval.client_cache import HitCache
from agent_envs.retrieval.client_errors import RetrievalAnswerError, RetrievalTimeoutError, RetrievalUnavailableError
from agent_envs.retrieval.client_parsing import parse_result

if TYPE_CHECKING:
    from agent_envs.retrieval.client_transport import Answer

ROUTE = "/retrieve"
CORPUS_HASH_HEADER = "x-corpus-hash"
BUSY = frozenset({429, 502, 503, 504})
PROBE_S = 3.0  # a busy server takes a moment even for a sign of life
MAX_BACKOFF_S = 2.0
_SHOWN = 200  # bytes of an error's body


@dataclass(frozen=True, slots=True)
class ClientOptions:
    """How patient a client is, and what it keeps.

    Attributes:
        timeout_s: of one search in all: waiting for a connection, retries and reading included; > 0.
        retries: of an exchange, where the connection broke or the server is too busy or not ready (429, 502, 503, 504).
        backoff_s: before the first retry, doubled from one to the next, each time with jitter; a server's own
            ``Retry-After`` goes first.
        failures_to_open: in a row, until the server is asked for a sign of life; without one, searches fail at once.
        cooldown_s: from one such question to the next.
        cache_size: queries whose hits are kept; 0 for none.
        cache_check_s: kept hits are given without asking for so long after the server's last answer, which names its
            corpus: a change empties the cache.
        max_connections: at once.
        max_queries: in one request; more are sent one request after the other.
        max_query_chars: what is longer is cut.
        max_response_bytes: a longer answer is an error.
    """

    timeout_s: float = 10.0
    retries: int = 4
    backoff_s: float = 0.1
    failures_to_open: int = 5
    cooldown_s: float = 1.0
    cache_size: int = 10_000
    cache_check_s: float = 30.0
    max_connections: int = 64
    max_queries: int = 64
    max_query_chars: int = 4096
    max_response_bytes: int = 4 * 2**20

    def __post_init__(self) -> None:
        """Checks the ranges.

        Raises:
            ConfigError: a value is out of range.
        """
        ones = ("failures_to_open", "max_connections", "max_queries", "max_query_chars", "max_response_bytes")
        for name in ones:
            if getattr(self, name) < 1:
                raise ConfigError(f"{name} is >= 1, not {getattr(self, name)}")
        for name in ("retries", "backoff_s", "cooldown_s", "cache_size", "cache_check_s"):
            if not getattr(self, name) >= 0:
                raise ConfigError(f"{name} is >= 0, not {getattr(self, name)}")
        if not self.timeout_s > 0:
            raise ConfigError(f"timeout_s is > 0, not {self.timeout_s}")


class _Session:
    """What a process may not share with one that it forks: connections, locks, and the state behind them."""

    def __init__(self, secure: bool, options: ClientOptions) -> None:
        from agent_envs.retrieval.client_transport import Transport

        self.pid = os.getpid()
        self.transport = Transport(secure, options.max_connections, options.max_response_bytes)
        self.breaker = CircuitBreaker(options.failures_to_open, options.cooldown_s)
        self.cache = HitCache(options.cache_size, options.cache_check_s)
        self.jitter = random.Random()


class HttpRetriever:
    """Searches through a retrieval server. Threads and environments share one; a forked or spawned process may, too."""

    def __init__(self, url: str, options: ClientOptions = ClientOptions()) -> None:
        """Connects to nothing yet: the server need not be up.

        Args:
            url: of the server, such as "http://127.0.0.1:8000", with or without "/retrieve" at the end.
            options: deadlines, retries, limits and the cache.

        Raises:
            ConfigError: it is no such URL.
            MissingExtraError: the extra ``serve`` is not installed.
        """
        self._base, self._secure = _read_url(url)
        self._options = options
        try:
            self._session = _Session(self._secure, options)
        except ImportError as error:
            raise MissingExtraError(
                f"a retrieval client needs httpcore: pip install 'agent-r1[serve]' ({error})"
            ) from error

    def search(self, queries: Sequence[str], top_k: int) -> list[list[Hit]]:
        """The best ``top_k`` passages of each query, as the server ranks them.

        Raises:
            RetrievalError: the server gave no such thing in time.
            ConfigError: ``top_k`` is below 1.
        """
        if top_k < 1:
            raise ConfigError(f"top_k: expected at least 1, got {top_k}")
        deadline = time.monotonic() + self._options.timeout_s
        session = self._session_here()
        asked = [_sendable(query, self._options.max_query_chars) for query in queries]
        found = session.cache.lookup(asked, top_k)
        missing = [query for query in dict.fromkeys(asked) if query not in found]
        for at in range(0, len(missing), self._options.max_queries):
            some = missing[at : at + self._options.max_queries]
            found.update(self._fetch(session, some, top_k, deadline))
        return [list(found[query]) for query in asked]

    def close(self) -> None:
        """Closes the connections; a later search opens new ones."""
        self._session_here().transport.close()

    def __enter__(self) -> HttpRetriever:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __reduce__(self) -> tuple[type[HttpRetriever], tuple[str, ClientOptions]]:
        return HttpRetriever, (self._base, self._options)

    def __repr__(self) -> str:
        return f"HttpRetriever({self._base!r})"

    def _session_here(self) -> _Session:
        if self._session.pid != os.getpid():
            self._session = _Session(self._secure, self._options)
        return self._session

    def _fetch(
        self, session: _Session, queries: Sequence[str], top_k: int, deadline: float
    ) -> dict[str, tuple[Hit, ...]]:
        payload = {"queries": queries, "topk": top_k, "return_scores": True}
        body = json.dumps(payload).encode()
        backoffs = self._backoffs(session)
        while True:
            try:
                answer = self._exchange(session, body, deadline)
                break
            except _TryAgainError as error:
                wait_s = next(backoffs, None)
                wait_s = wait_s if wait_s is None or error.retry_after_s is None else error.retry_after_s
                if wait_s is None or time.monotonic() + wait_s >= deadline:
                    raise RetrievalUnavailableError(str(error)) from error
                time.sleep(wait_s)
        hits = dict(zip(queries, self._parsed(session, answer, len(queries), top_k), strict=True))
        session.cache.store(answer.headers.get(CORPUS_HASH_HEADER, ""), hits, top_k)
        return hits

    def _backoffs(self, session: _Session) -> Iterator[float]:
        for attempt in range(self._options.retries):
            yield min(MAX_BACKOFF_S, self._options.backoff_s * 2.0 ** min(attempt, 10)) * session.jitter.uniform(
                0.5, 1.0
            )

    def _exchange(self, session: _Session, body: bytes, deadline: float) -> Answer:
        """One request and the answer to it, if the circuit is closed."""
        from agent_envs.retrieval.client_transport import ConnectionBrokenError

        self._ask_breaker(session, deadline)
        try:
            answer = session.transport.request("POST", self._base + ROUTE, body, deadline)
        except ConnectionBrokenError as error:
            session.breaker.failed()
            raise _TryAgainError(str(error)) from error
        except RetrievalError:
            session.breaker.failed()
            raise
        if answer.status in BUSY:
            raise _TryAgainError(_describe(self._base, answer), _retry_after_s(answer))
        return answer

    def _parsed(self, session: _Session, answer: Answer, num_queries: int, top_k: int) -> list[tuple[Hit, ...]]:
        try:
            if answer.status != 200:
                raise RetrievalAnswerError(_describe(self._base, answer))
            if answer.headers.get("content-encoding", "identity") != "identity":
                raise RetrievalAnswerError(f"{self._base} compressed its answer, which it was asked not to")
            hits = parse_result(answer.body, num_queries, top_k)
        except RetrievalAnswerError:
            session.breaker.failed()
            raise
        session.breaker.succeeded()
        return hits

    def _ask_breaker(self, session: _Session, deadline: float) -> None:
        verdict = session.breaker.ask()
        alive = verdict is not Verdict.REFUSE
        if verdict is Verdict.PROBE:
            alive = False
            try:
                alive = self._is_alive(session, deadline)
            finally:
                session.breaker.settle(alive)
        if not alive:
            raise RetrievalUnavailableError(
                f"{self._base} failed {self._options.failures_to_open} times in a row and shows no sign of life; it is "
                f"asked for one every {self._options.cooldown_s} s"
            )

    def _is_alive(self, session: _Session, deadline: float) -> bool:
        """Any answer in time will do, but a failure of the server's own; one that is busy or loading lives."""
        try:
            soon = min(deadline, time.monotonic() + PROBE_S)
            answer = session.transport.request("GET", f"{self._base}/health", b"", soon)
        except RetrievalError:
            return False
        return answer.status < 500 or answer.status in BUSY


class _TryAgainError(RetrievalError):
    """A failure that may pass."""

    def __init__(self, message: str, retry_after_s: float | None = None) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


def _read_url(url: str) -> tuple[str, bool]:
    """The server's address without the route, and whether it is one of TLS."""
    try:
        parts = urlsplit(url)
        fine = parts.scheme in ("http", "https") and bool(parts.hostname) and url.isascii() and parts.port != 0
    except ValueError:
        fine = False
    if not fine or parts.query or parts.fragment or parts.username or any(c.isspace() for c in url):
        raise ConfigError(f'expected the URL of a retrieval server, such as "http://127.0.0.1:8000", got {url!r}')
    path = parts.path.rstrip("/").removesuffix(ROUTE)
    return f"{parts.scheme}://{parts.netloc}{path}", parts.scheme == "https"


def _sendable(query: str, max_chars: int) -> str:
    """The query as valid Unicode, and no longer than a server takes: encoders read a few hundred words at most."""
    return query[:max_chars].encode("utf-8", "replace").decode("utf-8")


def _describe(base: str, answer: Answer) -> str:
    return f"{base} answered with status {answer.status}: {answer.body[:_SHOWN].decode('utf-8', 'replace')}"


def _retry_after_s(answer: Answer) -> float | None:
    """The seconds that a server asks for; None if it asks for none, or names a date."""
    value = answer.headers.get("retry-after", "")
    return float(value) if value.isascii() and value.isdecimal() else None


__all__ = [
    "ClientOptions",
    "HttpRetriever",
    "RetrievalAnswerError",
    "RetrievalTimeoutError",
    "RetrievalUnavailableError",
]
