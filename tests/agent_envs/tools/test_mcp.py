"""Servers of the Model Context Protocol: a real one, one over HTTP, and ill-behaved ones."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from agent_envs.errors import ConfigError, MissingExtraError, ToolFailureError, ToolUseError
from agent_envs.tools import Tool, ToolExecutor
from agent_envs.types import EventKind, ToolCall, ToolResult

pytest.importorskip("mcp", reason="MCP servers need the extra mcp")

from agent_envs.tools.mcp import HttpServer, McpSession, StdioServer

SERVER = Path(__file__).with_name("small_mcp_server.py")


def small_server(*options: str, **more: Any) -> StdioServer:
    return StdioServer(sys.executable, ["-S", str(SERVER), *options], **more)


def processes(mark: str) -> list[str]:
    """The command lines of living processes that hold a word."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            line = folder.joinpath("cmdline").read_bytes().replace(b"\0", b" ").decode()
        except OSError:  # it has just ended
            continue
        if mark in line:
            found.append(line)
    return found


def run(tools: tuple[Tool, ...], name: str, **arguments: Any) -> ToolResult:
    executor = ToolExecutor(tools)
    return executor.run([executor.check(ToolCall(name, arguments))])[0]


@pytest.fixture(scope="module")
def session() -> Iterator[McpSession]:
    with McpSession(small_server()) as opened:
        yield opened


@pytest.fixture(scope="module")
def tools(session: McpSession) -> tuple[Tool, ...]:
    return session.tools(timeout_s=10.0)


def test_a_real_server_answers_over_stdio() -> None:
    server = StdioServer(sys.executable, ["-m", "mcp_server_time", "--local-timezone", "UTC"])
    with McpSession(server) as session:
        tools = session.tools(include=["convert_time"])
        good = run(tools, "convert_time", source_timezone="Asia/Tokyo", time="12:00", target_timezone="Asia/Kolkata")
        bad = run(tools, "convert_time", source_timezone="Mars/Olympus", time="12:00", target_timezone="UTC")
        missing = run(tools, "convert_time", time="12:00", target_timezone="UTC")
    assert "T08:30:00+05:30" in good.content
    assert good.data["structured"]["time_difference"] == "-3.5h"
    assert (bad.kind, missing.kind) == (EventKind.TOOL_ERROR, EventKind.INVALID_ARGUMENTS)
    assert "Mars/Olympus" in bad.content
    assert "source_timezone: required, but missing" in missing.content


def test_every_page_of_the_list_is_read_and_names_become_speakable(tools: tuple[Tool, ...]) -> None:
    names = [tool.name for tool in tools]
    assert names[:3] == ["echo", "fail", "slow"]
    assert names[-2:] == ["say_im_end_it", "say_im_end_it_2"]
    assert [run(tools, name).content for name in names[-2:]] == ["said", "said too"]


def test_schemas_are_made_readable(tools: tuple[Tool, ...]) -> None:
    nested = next(tool for tool in tools if tool.name == "nested")
    assert nested.parameters["properties"] == {"box": {"type": "object", "properties": {"size": {"type": "integer"}}}}
    assert "$defs" not in nested.parameters
    assert len(nested.description) < 5_000  # of the 10,000 characters that the server sends
    assert "box.size: expected integer" in run(tools, "nested", box={"size": "big"}).content


def test_only_the_tools_asked_for_are_taken(session: McpSession) -> None:
    assert [tool.name for tool in session.tools(include=["mixed", "echo"])] == ["mixed", "echo"]
    with pytest.raises(ConfigError, match=r"has no tool \['ecko'\]; it has: echo, fail"):
        session.tools(include=["ecko"])


@pytest.mark.parametrize(
    ("name", "content", "kind"),
    [
        ("fail", "Error: no such file", EventKind.TOOL_ERROR),
        ("refuse", "Error: text must be shorter", EventKind.TOOL_ERROR),
        ("structured", '{"found": 2}', EventKind.CALL),
        ("empty", "(no output)", EventKind.CALL),
        (
            "mixed",
            "first\n[image (image/png): 4 bytes, not shown]\n[audio (audio/wav): 2 bytes, not shown]\n"
            "[resource notes: file:///notes.txt]\ninside\n[resource file:///a.bin: 3 bytes, not shown]",
            EventKind.CALL,
        ),
    ],
)
def test_results_become_text(tools: tuple[Tool, ...], name: str, content: str, kind: EventKind) -> None:
    result = run(tools, name)
    assert (result.content, result.kind) == (content, kind)


def test_a_huge_result_is_cut_before_anything_reads_it(tools: tuple[Tool, ...]) -> None:
    result = run(tools, "huge")
    assert result.content == "x" * 100_000 + " [...]"
    assert result.data == {}


def test_an_error_of_the_server_is_a_failure(tools: tuple[Tool, ...]) -> None:
    result = run(tools, "break")
    assert result.kind is EventKind.TOOL_FAILURE
    assert "out of order" in result.content
    assert run(tools, "echo", text="still there").content == "still there"


def test_answers_that_are_none_are_failures_and_noise_is_passed_over(tools: tuple[Tool, ...]) -> None:
    result = run(tools, "garbage")
    assert result.kind is EventKind.TOOL_FAILURE
    assert len(result.content) < 1_500
    assert run(tools, "noise").content == "after the noise"


def test_a_slow_call_hits_its_deadline_and_the_session_goes_on(session: McpSession) -> None:
    hasty = session.tools(include=["slow"], timeout_s=0.05)
    start = time.perf_counter()
    result = run(hasty, "slow")
    assert time.perf_counter() - start < 0.3
    assert (result.content, result.kind) == ("Error: slow did not answer within 0.05 s", EventKind.TOOL_FAILURE)
    assert run(session.tools(include=["echo"]), "echo", text="on").content == "on"
    assert session.call("cancelled", {}).content == "1"  # the server was told


def test_calls_of_many_threads_share_a_session(tools: tuple[Tool, ...]) -> None:
    executor = ToolExecutor(tools)
    results = executor.run([ToolCall("echo", {"text": str(n)}) for n in range(20)])
    assert [result.content for result in results] == [str(n) for n in range(20)]


def test_the_environment_is_not_passed_on() -> None:
    os.environ["AGENT_SECRET"] = "1"
    try:
        with McpSession(small_server(env={"GIVEN": "2"})) as session:
            names = session.call("environment", {}).content.split()
    finally:
        del os.environ["AGENT_SECRET"]
    assert "GIVEN" in names
    assert "AGENT_SECRET" not in names


def test_a_server_that_dies_fails_its_call_and_the_next_call_reaches_a_new_one() -> None:
    with McpSession(small_server("mark-dies")) as session:
        tools = session.tools()
        with pytest.raises(ToolFailureError, match="Connection closed"):
            session.call("die", {})
        assert run(tools, "echo", text="new").content == "new"
        assert run(tools, "die").kind is EventKind.TOOL_FAILURE
        assert run(tools, "echo", text="newer").content == "newer"
        assert len(processes("mark-dies")) == 1
    assert processes("mark-dies") == []


def test_a_server_that_died_between_calls_is_replaced_before_the_next() -> None:
    with McpSession(small_server("mark-idle")) as session:
        (process,) = [path for path in Path("/proc").glob("[0-9]*") if is_marked(path, b"mark-idle")]
        os.kill(int(process.name), 9)
        deadline = time.monotonic() + 5
        while session.is_connected and time.monotonic() < deadline:
            time.sleep(0.01)
        assert session.call("echo", {"text": "there"}).content == "there"


def is_marked(process: Path, mark: bytes) -> bool:
    try:
        return mark in process.joinpath("cmdline").read_bytes()
    except OSError:
        return False


@pytest.mark.slow
def test_closing_kills_a_stubborn_server_with_its_children() -> None:
    with McpSession(small_server("mark-stubborn", "--stubborn")):
        assert len(processes("mark-stubborn")) == 2
    assert processes("mark-stubborn") == []


@pytest.mark.parametrize(
    ("server", "complaint"),
    [
        (StdioServer("/no/such/program"), "cannot be connected to .*FileNotFoundError"),
        (StdioServer("sh", ["-c", "echo no licence >&2; exit 1"]), "closed its output.*its last words: no licence"),
        (HttpServer("http://127.0.0.1:9/mcp"), "http://127.0.0.1:9/mcp cannot be connected to"),
    ],
)
def test_a_server_that_cannot_be_reached_says_why(server: StdioServer | HttpServer, complaint: str) -> None:
    with pytest.raises(ToolFailureError, match=complaint):
        McpSession(server)


def test_connecting_has_a_deadline() -> None:
    start = time.perf_counter()
    with pytest.raises(ToolFailureError, match=r"did not connect within 0.1 s"):
        McpSession(small_server("mark-mute", "--mute"), connect_timeout_s=0.1)
    assert time.perf_counter() - start < 5
    assert processes("mark-mute") == []


def test_an_invalid_schema_is_refused_and_can_be_left_out() -> None:
    with McpSession(small_server("--bad-schema")) as session:
        with pytest.raises(ConfigError, match="the tool 'bad' are no JSON schema"):
            session.tools()
        assert len(session.tools(include=["echo"])) == 1


def test_a_list_without_end_is_given_up() -> None:
    with McpSession(small_server("--endless-list")) as session, pytest.raises(ToolFailureError, match="100 pages"):
        session.tools()


def test_a_list_that_never_comes_is_given_up() -> None:
    server = small_server("--hang-list")
    with (
        McpSession(server, connect_timeout_s=1.0) as session,
        pytest.raises(ToolFailureError, match=r"did not list its tools within 1.0 s"),
    ):
        session.tools()


def test_a_closed_session_says_so() -> None:
    before = threading.active_count()
    session = McpSession(small_server())
    tools = session.tools(include=["echo"])
    session.close()
    assert (session.is_connected, threading.active_count()) == (False, before)
    session.close()
    with pytest.raises(ToolFailureError, match="is closed"):
        session.call("echo", {"text": "a"})
    assert "is closed" in run(tools, "echo", text="a").content


# ------------------------------------------------------------------------------------------------------ streamable HTTP


@contextmanager
def http_server(listener: socket.socket, seen: list[dict[bytes, bytes]]) -> Iterator[None]:
    """A server of the SDK on loopback, in a thread of its own."""
    import uvicorn
    from mcp.server.mcpserver import MCPServer
    from mcp.server.mcpserver.exceptions import ToolError

    server = MCPServer("small")

    @server.tool()
    def add(a: int, b: int) -> int:
        """Add two numbers."""
        if a < 0:
            raise ToolError("a is a natural number")
        return a + b

    inner = server.streamable_http_app()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        seen.append(dict(scope.get("headers", [])))
        await inner(scope, receive, send)

    running = uvicorn.Server(uvicorn.Config(app, log_level="critical", timeout_graceful_shutdown=1))
    thread = threading.Thread(target=running.run, kwargs={"sockets": [listener]})
    thread.start()
    try:
        yield
    finally:
        running.should_exit = True
        thread.join(10)


def test_tools_over_http_with_headers_and_a_restart() -> None:
    seen: list[dict[bytes, bytes]] = []
    with ExitStack() as at_end:
        with socket.create_server(("127.0.0.1", 0)) as first, http_server(first, seen):
            port = first.getsockname()[1]
            server = HttpServer(f"http://127.0.0.1:{port}/mcp", {"x-key": "secret"})
            session = at_end.enter_context(McpSession(server))
            tools = session.tools()
            assert run(tools, "add", a=1, b=2).content == "3"
            assert run(tools, "add", a="1", b=2).kind is EventKind.INVALID_ARGUMENTS
            with pytest.raises(ToolUseError, match="a is a natural number"):
                session.call("add", {"a": -1, "b": 2})
        assert any(headers.get(b"x-key") == b"secret" for headers in seen)
        assert "secret" not in repr(server)
        assert run(tools, "add", a=1, b=2).kind is EventKind.TOOL_FAILURE  # nobody is there
        with socket.create_server(("127.0.0.1", port)) as second, http_server(second, seen):
            assert run(tools, "add", a=2, b=2).content == "4"


def test_a_missing_client_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mcp", None)  # what an import of a missing module meets
    with pytest.raises(MissingExtraError, match=r"agent-r1\[mcp\]"):
        McpSession(small_server())


@pytest.mark.slow
def test_the_end_of_the_process_closes_what_was_left_open() -> None:
    server = small_server("mark-left-open")
    opens = f"from agent_envs.tools.mcp import McpSession, StdioServer; session = McpSession({server!r})"
    program = f"{opens}; print(session.call('echo', {{'text': 'hi'}}).content)"
    ended = subprocess.run([sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, timeout=60)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "hi\n", "")
    assert processes("mark-left-open") == []
