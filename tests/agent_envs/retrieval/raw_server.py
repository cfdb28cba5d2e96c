"""A server that answers with whatever bytes a test wants, when it wants, on a port of the loopback address."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from collections.abc import Callable
from typing import Any

CORPUS = ["alpha", "beta", "gamma", "delta", "epsilon"]


class Peer:
    """One request, and the means to answer it."""

    def __init__(self, server: RawServer, connection: socket.socket, method: str, path: str, body: bytes) -> None:
        self.server, self.connection = server, connection
        self.method, self.path = method, path
        self.asked: dict[str, Any] = json.loads(body) if body else {}
        self.closed = False

    def send(self, data: bytes) -> None:
        self.connection.sendall(data)

    def respond(self, body: bytes, status: str = "200 OK", headers: str = "") -> None:
        self.send(f"HTTP/1.1 {status}\r\ncontent-length: {len(body)}\r\n{headers}\r\n".encode() + body)

    def good(self, headers: str = "") -> None:
        """What a sound server says."""
        self.respond(json.dumps(good_result(self.asked)).encode(), headers=headers)

    def drip(self, data: bytes) -> None:
        """A byte now and then, for as long as anybody listens."""
        for at in range(len(data)):
            if self.server.stopping.wait(0.02):
                return
            self.send(data[at : at + 1])

    def hang(self) -> None:
        self.server.stopping.wait(10.0)

    def close(self) -> None:
        self.closed = True


def good_result(asked: dict[str, Any]) -> dict[str, Any]:
    """Hits that tell which query they are for."""
    return {
        "result": [
            [{"document": {"contents": f'"{query}"\n{word}'}, "score": 1.0} for word in CORPUS[: asked["topk"]]]
            for query in asked["queries"]
        ]
    }


class RawServer:
    """Lets ``behave`` answer each request to /retrieve; /health is ``health``, 404 by default. A context manager."""

    def __init__(
        self, behave: Callable[[Peer], None], port: int = 0, health: Callable[[Peer], None] | None = None
    ) -> None:
        self.behave = behave
        self.health = health or (lambda peer: peer.respond(b"{}", "404 Not Found"))
        self.stopping = threading.Event()
        self.requests: list[dict[str, Any]] = []
        self.probes = 0
        self._connections: list[socket.socket] = []
        self._listener = socket.create_server(("127.0.0.1", port))
        self.port = self._listener.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    def __enter__(self) -> RawServer:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        self.stopping.set()
        self._listener.shutdown(socket.SHUT_RDWR)
        self._threads[0].join()
        self._listener.close()
        for connection in self._connections:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        for thread in self._threads[1:]:
            thread.join()

    def _accept(self) -> None:
        while not self.stopping.is_set():
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self._connections.append(connection)
            thread = threading.Thread(target=self._converse, args=(connection,), daemon=True)
            self._threads.append(thread)
            thread.start()

    def _converse(self, connection: socket.socket) -> None:
        with connection, connection.makefile("rb") as stream:
            try:
                while self._answer(connection, stream):
                    pass
            except OSError:  # the client has gone
                pass

    def _answer(self, connection: socket.socket, stream: Any) -> bool:
        line = stream.readline().split()
        if not line:
            return False
        length = 0
        while header := stream.readline().strip():
            if header.lower().startswith(b"content-length:"):
                length = int(header.split(b":")[1])
        peer = Peer(self, connection, line[0].decode(), line[1].decode(), stream.read(length))
        if peer.path == "/health":
            self.probes += 1
            self.health(peer)
        else:
            self.requests.append(peer.asked)
            self.behave(peer)
        return not peer.closed
