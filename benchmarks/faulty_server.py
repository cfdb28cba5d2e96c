"""A retrieval server that answers well, but for queries that name a fault: then it commits that fault, on the wire."""

from __future__ import annotations

import contextlib
import json
import socket
import socketserver
import threading
from collections.abc import Callable
from typing import Any

from agent_envs.retrieval.base import Retriever
from agent_envs.retrieval.server_app import render_result

MARK = "fault:"
_HEAD = b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n"


def _crash(server: FaultyServer, connection: socket.socket) -> None:
    connection.sendall(_HEAD % 1000 + b'{"result": [[{"docu')
    connection.shutdown(socket.SHUT_RDWR)


def _hang(server: FaultyServer, connection: socket.socket) -> None:
    connection.recv(1)  # until the client has had enough


def _drip(server: FaultyServer, connection: socket.socket) -> None:
    connection.sendall(_HEAD % 100_000)
    while not server.stopping.wait(0.02):
        connection.sendall(b" ")


def _answer(body: bytes) -> Callable[[FaultyServer, socket.socket], None]:
    return lambda server, connection: connection.sendall(_HEAD % len(body) + body)


def _exception(server: FaultyServer, connection: socket.socket) -> None:
    body = b'{"detail": "the search failed (LookupError: no such index)"}'
    connection.sendall(b"HTTP/1.1 500 Internal Server Error\r\ncontent-length: %d\r\n\r\n" % len(body) + body)


FAULTS: dict[str, Callable[[FaultyServer, socket.socket], None]] = {
    "crash": _crash,
    "hang": _hang,
    "exception": _exception,
    "non-string": _answer(b'{"result": [[{"document": {"contents": 5}, "score": 1}]]}'),
    "5 MB": _answer(b'{"result": [[{"document": {"contents": "' + b"x" * 5_000_000 + b'"}, "score": 1}]]}'),
    "invalid UTF-8": _answer(b'{"result": [[{"document": {"contents": "\xff\xfe"}, "score": 1}]]}'),
    "slow drip": _drip,
}


class FaultyServer(socketserver.ThreadingTCPServer):
    """Listens as soon as it is made; ``stop`` breaks every connection off."""

    allow_reuse_address = True
    daemon_threads = True
    request_queue_size = 1024

    def __init__(self, retriever: Retriever, port: int = 0) -> None:
        """Starts a thread that accepts, and one for each connection."""
        super().__init__(("127.0.0.1", port), _Handler)
        self.retriever = retriever
        self.stopping = threading.Event()
        self.connections: set[socket.socket] = set()
        self.port = int(self.server_address[1])
        self.url = f"http://127.0.0.1:{self.port}"
        self._thread = threading.Thread(target=self.serve_forever, args=(0.01,), name="faulty-server", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Ends at once, as a killed process does; the port is free afterwards."""
        self.stopping.set()
        self.shutdown()
        self._thread.join()
        self.server_close()
        for connection in list(self.connections):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Says nothing: a client that has had enough is what most faults come to."""


class _Handler(socketserver.StreamRequestHandler):
    """One connection."""

    server: FaultyServer
    disable_nagle_algorithm = True

    def handle(self) -> None:
        """Request after request."""
        self.server.connections.add(self.connection)
        try:
            while self._answer_one():
                pass
        finally:
            self.server.connections.discard(self.connection)

    def _answer_one(self) -> bool:
        line = self.rfile.readline().split()
        if not line or self.server.stopping.is_set():
            return False
        length = 0
        while header := self.rfile.readline().strip():
            if header.lower().startswith(b"content-length:"):
                length = int(header.split(b":")[1])
        body = self.rfile.read(length)
        if line[1] != b"/retrieve":
            self.connection.sendall(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n")
            return True
        asked = json.loads(body)
        fault = next((query for query in asked["queries"] if query.startswith(MARK)), None)
        if fault is not None:
            FAULTS[fault.removeprefix(MARK).partition("/")[0]](self.server, self.connection)
            return True
        answer = render_result(self.server.retriever.search(asked["queries"], asked["topk"]), True)
        self.connection.sendall(_HEAD % len(answer) + answer)
        return True
