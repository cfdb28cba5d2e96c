"""HTTP for a client that trusts no server: one deadline over all of an exchange, and a limit to what is read.

A time-out of httpcore (as of other libraries) counts from one byte to the next, so that a server which drips would hold
its client for ever. Here each read and write gets what is left of the deadline.
"""

from __future__ import annotations

import ssl
import threading
import time
import weakref
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import httpcore

from agent_envs.errors import RetrievalError
from agent_envs.retrieval.client_errors import RetrievalAnswerError, RetrievalTimeoutError

IDLE_S = 30.0  # how long an unused connection is kept
_PIECE = 16 * 1024  # bytes in one write
_HEADERS = [
    (b"accept", b"application/json"),
    (b"accept-encoding", b"identity"),
    (b"content-type", b"application/json"),
    (b"user-agent", b"agent-r1"),
]


class ConnectionBrokenError(RetrievalError):
    """No connection, or one that the server broke off."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A response that came whole; the names of headers are in lower case."""

    status: int
    headers: dict[str, str]
    body: bytes


class Transport:
    """Connections to one server, shared by threads."""

    def __init__(self, secure: bool, max_connections: int, max_response_bytes: int) -> None:
        """Opens nothing yet.

        Args:
            secure: whether the server is spoken to by TLS, with the certificates that the system trusts.
            max_connections: at once; more exchanges wait for one.
            max_response_bytes: a longer body is an error.
        """
        self._idle: deque[httpcore.HTTPConnection] = deque()
        weakref.finalize(self, _close_all, self._idle)  # nobody closes a retriever that environments share
        self._max_response_bytes = max_response_bytes
        self._exchange = _Exchange()
        self._backend = _Backend(self._exchange)
        self._tls = ssl.create_default_context() if secure else None
        self._free = threading.BoundedSemaphore(max_connections)

    def request(self, method: str, url: str, body: bytes, deadline: float) -> Answer:
        """One exchange.

        Args:
            method: of HTTP.
            url: of the resource.
            body: JSON, or nothing.
            deadline: by ``time.monotonic``.

        Raises:
            ConnectionBrokenError: the server cannot be reached, or broke the connection off.
            RetrievalTimeoutError: the deadline passed.
            RetrievalAnswerError: what came is not HTTP, or too long.
        """
        self._exchange.deadline, self._exchange.hung_up = deadline, False
        try:
            with (
                self._connection(url) as connection,
                connection.stream(method, url, headers=_HEADERS, content=body) as response,
            ):
                named = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in response.headers}
                return Answer(response.status, named, self._read(response))
        except httpcore.TimeoutException as error:
            raise RetrievalTimeoutError(f"{url} did not answer within the search's deadline") from error
        except httpcore.NetworkError as error:
            raise ConnectionBrokenError(f"the connection to {url} broke ({type(error).__name__}: {error})") from error
        except httpcore.RemoteProtocolError as error:
            if self._exchange.hung_up:
                raise ConnectionBrokenError(f"{url} broke the connection off ({error})") from error
            raise RetrievalAnswerError(f"{url} does not speak HTTP ({error})") from error

    def close(self) -> None:
        """Closes the connections that no exchange uses; the next one opens one again."""
        _close_all(self._idle)

    @contextmanager
    def _connection(self, url: str) -> Iterator[httpcore.HTTPConnection]:
        """A connection for this exchange alone, the one last used if any is left.

        httpcore's own pool looks at all of its connections at each exchange, which costs milliseconds with 64 of them.
        """
        if not self._free.acquire(timeout=max(0.0, self._exchange.deadline - time.monotonic())):
            raise httpcore.PoolTimeout("all connections are in use")
        try:
            connection = self._last_used() or httpcore.HTTPConnection(
                httpcore.URL(url).origin, self._tls, keepalive_expiry=IDLE_S, network_backend=self._backend
            )
            try:
                yield connection
            finally:
                if connection.is_idle() and not connection.is_closed():
                    self._idle.append(connection)
                else:
                    connection.close()
        finally:
            self._free.release()

    def _last_used(self) -> httpcore.HTTPConnection | None:
        while True:
            try:
                connection = self._idle.pop()
            except IndexError:
                return None
            if not connection.has_expired():
                return connection
            connection.close()

    def _read(self, response: httpcore.Response) -> bytes:
        parts, size = [], 0
        for part in response.iter_stream():
            size += len(part)
            if size > self._max_response_bytes:
                raise RetrievalAnswerError(f"the server's answer is longer than {self._max_response_bytes} bytes")
            parts.append(part)
        return b"".join(parts)


def _close_all(idle: deque[httpcore.HTTPConnection]) -> None:
    while idle:
        idle.pop().close()


class _Exchange(threading.local):
    """The exchange of the present thread: when it must be over, and whether the server has hung up."""

    deadline: float = 0.0
    hung_up: bool = False

    def left(self, error: type[httpcore.TimeoutException]) -> float:
        left = self.deadline - time.monotonic()
        if left <= 0:
            raise error("the deadline has passed")
        return left


class _Stream(httpcore.NetworkStream):
    """A connection whose every operation ends with the exchange's deadline."""

    def __init__(self, stream: httpcore.NetworkStream, exchange: _Exchange) -> None:
        self._stream = stream
        self._exchange = exchange

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        data = self._stream.read(max_bytes, self._exchange.left(httpcore.ReadTimeout))
        self._exchange.hung_up = not data
        return data

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        for at in range(0, len(buffer), _PIECE):
            self._stream.write(buffer[at : at + _PIECE], self._exchange.left(httpcore.WriteTimeout))

    def close(self) -> None:
        self._stream.close()

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.NetworkStream:
        left = self._exchange.left(httpcore.ConnectTimeout)
        return _Stream(self._stream.start_tls(ssl_context, server_hostname, left), self._exchange)

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)


class _Backend(httpcore.NetworkBackend):
    """Connects by TCP."""

    def __init__(self, exchange: _Exchange) -> None:
        self._backend = httpcore.SyncBackend()
        self._exchange = exchange

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.NetworkStream:
        left = self._exchange.left(httpcore.ConnectTimeout)
        stream = self._backend.connect_tcp(host, port, left, local_address, socket_options)
        return _Stream(stream, self._exchange)
