"""The tools of an MCP server (Model Context Protocol), over stdio or streamable HTTP, by the official client.

The client is asynchronous and its connections belong to one task of one event loop; tools are called from many
threads. So a session keeps a thread with an event loop, and in it one task per connection. A connection that broke is
opened again at the next call: the call that was under way may have had its effect, so it fails and isn't repeated.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import re
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import Any, TextIO, TypeAlias, TypeVar

from agent_envs.errors import ConfigError, MissingExtraError, ToolFailureError, ToolUseError
from agent_envs.tools.base import DEFAULT_TIMEOUT_S, Tool, ToolOutput, schema_tool
from agent_envs.tools.json_schema import readable
from agent_envs.tools.mcp_content import cut, render_result

CLOSE_TIMEOUT_S = 10.0  # the client gives a server 2 s to leave, 2 s after SIGTERM, and 2 s after SIGKILL
MAX_PAGES = 100  # of a server's list of tools
MAX_DESCRIPTION = 4_000  # characters
MAX_LAST_WORDS = 1_000  # bytes

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class StdioServer:
    """A server that is started as a child process and spoken to over its standard input and output.

    Attributes:
        command: the program.
        args: its arguments.
        env: variables besides HOME, PATH and the like; nothing else of this process's environment is passed on.
        cwd: its working folder, or None for this process's.
    """

    command: str
    args: Sequence[str] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    cwd: str | None = None

    def __str__(self) -> str:
        return " ".join([self.command, *self.args])


@dataclass(frozen=True, slots=True)
class HttpServer:
    """A server that listens at a URL (streamable HTTP); ``headers`` go with every request."""

    url: str
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)  # not in a log: they hold credentials

    def __str__(self) -> str:
        return self.url


Server: TypeAlias = StdioServer | HttpServer


class McpSession:
    """A connection to an MCP server that any thread may use; a context manager, and closed at the process's end."""

    def __init__(self, server: Server, *, connect_timeout_s: float = 30.0) -> None:
        """Connects.

        Raises:
            MissingExtraError: the ``mcp`` package is not installed.
            ToolFailureError: the server cannot be reached within ``connect_timeout_s``.
        """
        _require_client()
        self.server = server
        self._loop = asyncio.new_event_loop()
        self._link = _Link(server, connect_timeout_s)
        self._process_id = os.getpid()
        self._thread = threading.Thread(target=self._loop.run_forever, name=f"mcp-{server}", daemon=True)
        self._thread.start()
        atexit.register(self.close)
        try:
            self._submit(self._link.client()).result()
        except BaseException:
            self.close()
            raise

    @property
    def is_connected(self) -> bool:
        """False once the connection broke; the next call opens another."""
        return self._link.is_up

    def tools(
        self, include: Sequence[str] | None = None, *, timeout_s: float | None = DEFAULT_TIMEOUT_S
    ) -> tuple[Tool, ...]:
        """The server's tools.

        Args:
            include: the names of those wanted, as the server has them; all by default.
            timeout_s: the deadline of each call in seconds.

        Raises:
            ConfigError: a wanted tool is not there, or a tool's schema is not a valid one.
            ToolFailureError: the server cannot be reached.
        """
        listed = {tool.name: tool for tool in self._submit(self._link.list_tools()).result()}
        wanted = list(listed) if include is None else list(include)
        absent = [name for name in wanted if name not in listed]
        if absent:
            raise ConfigError(f"the MCP server {self.server} has no tool {absent}; it has: {', '.join(listed)}")
        names = _speakable(wanted)
        return tuple(self._tool_of(listed[name], names[name], timeout_s) for name in wanted)

    def call(self, name: str, arguments: Mapping[str, Any]) -> ToolOutput:
        """Calls a tool and waits for its result, without a deadline.

        Raises:
            ToolUseError: the tool reports an error, or the server refuses the arguments.
            ToolFailureError: the connection broke, or the server failed.
        """
        return self._submit(self._link.call(name, arguments)).result()

    def close(self) -> None:
        """Ends the connection and, over stdio, the server's process with all its children. May be called twice."""
        atexit.unregister(self.close)
        if self._process_id != os.getpid() or not self._thread.is_alive():
            return
        try:
            self._submit(self._link.close()).result(CLOSE_TIMEOUT_S)
        finally:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(CLOSE_TIMEOUT_S)
            if not self._thread.is_alive():
                self._loop.close()

    def __enter__(self) -> McpSession:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _tool_of(self, listed: Any, name: str, timeout_s: float | None) -> Tool:
        async def call(**arguments: Any) -> ToolOutput:
            # Awaited, so that a deadline cancels the call at the server too.
            return await asyncio.wrap_future(self._submit(self._link.call(listed.name, arguments)))

        description = cut(listed.description or listed.title or "", MAX_DESCRIPTION)
        return schema_tool(name, description, readable(listed.input_schema), call, timeout_s=timeout_s)

    def _submit(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        if self._process_id != os.getpid() or not self._thread.is_alive():
            work.close()
            raise ToolFailureError(
                f"the session with the MCP server {self.server} is closed, or belongs to another process; each "
                "process opens its own"
            )
        return asyncio.run_coroutine_threadsafe(work, self._loop)


class _Link:
    """The connection itself, opened anew when it broke. Lives in the session's event loop alone."""

    def __init__(self, server: Server, connect_timeout_s: float) -> None:
        self._server = server
        self._connect_timeout_s = connect_timeout_s
        self._connecting: asyncio.Task[Any] | None = None
        self._holder: asyncio.Task[None] | None = None  # the latest
        self._holders: set[asyncio.Task[None]] = set()  # all that have not ended
        self._hang_up: Callable[[], None] = lambda: None
        self._last_words = bytearray()

    async def client(self) -> Any:
        """The connected client.

        One caller connects for all, and none of them whose deadline passes takes the others' connection away.
        """
        if self._connecting is None or (self._connecting.done() and not self.is_up):
            self._connecting = asyncio.create_task(self._connect())
        return await asyncio.shield(self._connecting)

    @property
    def is_up(self) -> bool:
        opened = self._connecting is not None and self._connecting.done() and self._connecting.exception() is None
        return opened and self._holder in self._holders

    async def list_tools(self) -> list[Any]:
        """All tools, within the time that connecting may take."""
        try:
            async with asyncio.timeout(self._connect_timeout_s):
                return await self._list_pages()
        except TimeoutError as error:
            what = f"did not list its tools within {self._connect_timeout_s} s"
            raise ToolFailureError(self._words(what, None)) from error

    async def _list_pages(self) -> list[Any]:
        tools: list[Any] = []
        cursor = None
        for _ in range(MAX_PAGES):
            page = await self._ask("list_tools", cursor=cursor)
            tools += page.tools
            cursor = page.next_cursor
            if cursor is None:
                return tools
        raise ToolFailureError(f"the MCP server {self._server} lists its tools on more than {MAX_PAGES} pages")

    async def call(self, name: str, arguments: Mapping[str, Any]) -> ToolOutput:
        return render_result(await self._ask("call_tool", name=name, arguments=dict(arguments)))

    async def close(self) -> None:
        """Hangs up and waits until nothing of the connection is left."""
        self._hang_up()
        if self._holders:
            await asyncio.wait(set(self._holders))

    async def _ask(self, method: str, **request: Any) -> Any:
        import mcp_types
        from mcp import MCPError

        client, holder = await self.client(), self._holder
        try:
            return await getattr(client, method)(**request)
        except MCPError as error:
            if error.code == mcp_types.INVALID_PARAMS:
                raise ToolUseError(cut(error.message)) from error
            if error.code == mcp_types.CONNECTION_CLOSED and holder is self._holder:
                await self.close()  # the next call connects anew
            raise ToolFailureError(self._words("failed", error)) from error
        except Exception as error:  # an answer that is none, for example
            raise ToolFailureError(self._words("failed", error)) from error

    async def _connect(self) -> Any:
        import anyio

        scope = anyio.CancelScope()
        opened: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._last_words.clear()
        self._holder = asyncio.create_task(self._hold(opened, scope))
        self._holders.add(self._holder)
        self._holder.add_done_callback(self._holders.discard)
        self._hang_up = scope.cancel
        try:
            return await asyncio.wait_for(opened, self._connect_timeout_s)
        except TimeoutError as error:
            scope.cancel()
            raise ToolFailureError(self._words(f"did not connect within {self._connect_timeout_s} s", None)) from error
        except Exception as error:
            raise ToolFailureError(self._words("cannot be connected to", error)) from error

    async def _hold(self, opened: asyncio.Future[Any], scope: Any) -> None:
        """Opens the connection and keeps it until it breaks or the scope is cancelled."""
        try:
            with scope:
                await self._serve(opened)
        except Exception as error:  # the connection broke, or was never there
            if not opened.done():
                opened.set_exception(error)
        finally:
            if not opened.done():
                opened.set_exception(ConnectionError("the session was closed"))

    async def _serve(self, opened: asyncio.Future[Any]) -> None:
        import anyio
        from mcp import Client

        async with Client(_transport(self._server, self._last_words)) as client:
            if not opened.done():
                opened.set_result(client)
            await anyio.sleep_forever()

    def _words(self, what: str, error: BaseException | None) -> str:
        said = self._last_words.decode(errors="replace").strip()
        cause = f" ({_innermost(error)})" if error is not None else ""
        return f"the MCP server {self._server} {what}{cause}{f'; its last words: {said}' if said else ''}"


def _transport(server: Server, last_words: bytearray) -> AbstractAsyncContextManager[Any]:
    return _stdio(server, last_words) if isinstance(server, StdioServer) else _http(server)


@asynccontextmanager
async def _http(server: HttpServer) -> AsyncIterator[Any]:
    import httpx2
    from mcp.client.streamable_http import streamable_http_client

    # Reading has no limit here: a call's deadline is its tool's.
    timeout = httpx2.Timeout(30.0, read=None)
    async with (
        httpx2.AsyncClient(headers=dict(server.headers), timeout=timeout) as http,
        streamable_http_client(server.url, http_client=http) as streams,
    ):
        yield streams


@asynccontextmanager
async def _stdio(server: StdioServer, last_words: bytearray) -> AsyncIterator[Any]:
    """The client's stdio transport, which also ends the connection when the server has gone.

    By itself it would leave that to the next request, whose fate nobody could know then.
    """
    import anyio
    from mcp import StdioServerParameters, stdio_client

    parameters = StdioServerParameters(
        command=server.command, args=list(server.args), env=dict(server.env), cwd=server.cwd
    )

    async def pump(source: Any, sink: Any) -> None:
        async with sink:
            async for message in source:
                await sink.send(message)
        raise ConnectionError("the server closed its output")

    with _error_stream(last_words) as errors:
        async with stdio_client(parameters, errlog=errors) as (source, write):
            sink, read = anyio.create_memory_object_stream[Any](0)
            async with anyio.create_task_group() as group:
                group.start_soon(pump, source, sink)
                yield read, write
                group.cancel_scope.cancel()


@contextmanager
def _error_stream(last_words: bytearray) -> Iterator[TextIO]:
    """A file for a server's standard error, of which only the end is kept: it may say why the server died."""
    loop = asyncio.get_running_loop()
    reader, writer = os.pipe()
    os.set_blocking(reader, False)

    def take() -> None:
        last_words.extend(os.read(reader, 65_536))
        del last_words[:-MAX_LAST_WORDS]

    loop.add_reader(reader, take)
    try:
        with os.fdopen(writer, "w") as stream:
            yield stream
    finally:
        loop.remove_reader(reader)
        os.close(reader)


def _speakable(names: Sequence[str]) -> dict[str, str]:
    """A name that a policy can write for each of the server's, different from one another."""
    chosen: dict[str, str] = {}
    for name in names:
        plain = re.sub(r"[^\w.-]+", "_", name)[:64].strip("_") or "tool"
        candidate, number = plain, 1
        while candidate in chosen.values():
            number += 1
            candidate = f"{plain}_{number}"
        chosen[name] = candidate
    return chosen


def _innermost(error: BaseException) -> str:
    """What went wrong at the bottom of the groups that task groups make of errors."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return f"{type(error).__name__}: {cut(str(error), 500)}"


def _require_client() -> None:
    try:
        import mcp
    except ModuleNotFoundError as error:
        raise MissingExtraError("MCP servers are spoken to with mcp: pip install 'agent-r1[mcp]'") from error
    if not hasattr(mcp, "Client"):
        raise MissingExtraError("MCP servers need mcp 2.0 or later: pip install 'agent-r1[mcp]'")
