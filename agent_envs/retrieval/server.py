"""A retrieval server over HTTP: in this process until it is told to stop, or in a thread of it.

    with RetrievalServer(lambda: ServedIndex(Bm25Retriever(passages))) as server:
        env = gym.make("AgentR1/HotpotQA-v0", index=server.url)

``agentr1 index serve FOLDER`` runs one from the command line.
"""

from __future__ import annotations

import math
import socket
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any

from agent_envs.errors import ConfigError, MissingExtraError
from agent_envs.retrieval.server_options import ServedIndex, ServerOptions, open_folder
from agent_envs.retrieval.server_state import IndexService, Status

__all__ = ["RetrievalServer", "ServedIndex", "ServerOptions", "open_folder", "serve"]

HOST = "127.0.0.1"
BACKLOG = 2048
KEEP_ALIVE_S = 75  # longer than the client keeps an idle connection, so that it is the client who closes


class RetrievalServer:
    """A server; it listens as soon as it is made, and answers once it runs and its index is loaded.

    A context manager that runs it in a thread and waits until it is ready.
    """

    def __init__(
        self,
        load: Callable[[], ServedIndex],
        host: str = HOST,
        port: int = 0,
        options: ServerOptions = ServerOptions(),  # noqa: B008 - frozen
    ) -> None:
        """Takes the port.

        Args:
            load: opens the index, in a thread, once the server runs.
            host: the address to listen at. There is no access control: other than the loopback address, only where
                everyone who can reach it may search.
            port: 0 for any that is free.
            options: limits.

        Raises:
            ConfigError: the address cannot be listened at.
            MissingExtraError: the extra ``serve`` is not installed.
        """
        if not 0 <= port < 65536:
            raise ConfigError(f"a port is in [0, 65535], not {port}")
        self.service = IndexService(load, options)
        self._server = _uvicorn_server(self.service)
        self.service.on_failure = self.stop
        try:
            self._socket = socket.create_server((host, port), backlog=BACKLOG)
            # Those accepted inherit it; else the body of an answer would wait for the client's word on its headers.
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        except OSError as error:
            raise ConfigError(f"cannot listen at {host}:{port}: {error}") from error
        self.host, self.port = host, int(self._socket.getsockname()[1])
        self._thread: threading.Thread | None = None

    @property
    def url(self) -> str:
        """What a client is given."""
        return f"http://{self.host}:{self.port}"

    def run(self) -> None:
        """Serves until ``stop``, SIGTERM or Ctrl-C; requests under way are answered before it returns.

        Raises:
            Exception: what loading the index raised.
        """
        try:
            self._server.run(sockets=[self._socket])
        finally:
            self._socket.close()
        if self.service.failure is not None:
            raise self.service.failure

    def stop(self) -> None:
        """Lets ``run`` return, from any thread."""
        self._server.should_exit = True

    def __enter__(self) -> RetrievalServer:
        self._thread = threading.Thread(target=self._run_quietly, name="retrieval-server", daemon=True)
        self._thread.start()
        while self.service.status is Status.LOADING and self._thread.is_alive():
            time.sleep(0.005)
        if self.service.failure is not None:
            self._thread.join()
            raise self.service.failure
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        if self._thread is not None:
            self._thread.join()

    def _run_quietly(self) -> None:
        try:
            self.run()
        except BaseException as error:  # __enter__ raises it
            self.service.failure = self.service.failure or error


def serve(
    load: Callable[[], ServedIndex],
    host: str = HOST,
    port: int = 8000,
    options: ServerOptions = ServerOptions(),  # noqa: B008 - frozen
    announce: Callable[[RetrievalServer], None] | None = None,
) -> None:
    """Serves an index until SIGTERM or Ctrl-C.

    Args:
        load: opens the index; requests get status 503 until it has.
        host: see ``RetrievalServer``.
        port: 0 for any that is free.
        options: limits.
        announce: told of the server as soon as it listens.

    Raises:
        ConfigError: the address cannot be listened at.
        MissingExtraError: the extra ``serve`` is not installed.
        Exception: what loading the index raised.
    """
    server = RetrievalServer(load, host, port, options)
    if announce is not None:
        announce(server)
    server.run()


def _uvicorn_server(service: IndexService) -> Any:
    try:
        import uvicorn

        from agent_envs.retrieval.server_app import create_app
    except ImportError as error:
        raise MissingExtraError(
            f"a retrieval server needs FastAPI and uvicorn: pip install 'agent-r1[serve]' ({error})"
        ) from error
    config = uvicorn.Config(
        create_app(service),
        log_level="warning",
        access_log=False,
        ws="none",
        lifespan="on",
        backlog=BACKLOG,
        timeout_keep_alive=KEEP_ALIVE_S,
        timeout_graceful_shutdown=math.ceil(service.options.drain_s),
    )
    return uvicorn.Server(config)
