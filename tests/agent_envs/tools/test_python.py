"""The Python tool: what the policy reads, one call at a time and over an episode."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable

import pytest

from agent_envs.sandbox import Limits
from agent_envs.tools import TOOLS, ToolExecutor
from agent_envs.tools.python import NO_OUTPUT, RESTARTED, PythonToolbox, python_tool
from agent_envs.types import EventKind, ToolCall, ToolResult
from tests.agent_envs.sandbox.isolated import needs_isolation

pytestmark = needs_isolation
LIMITS = Limits(timeout_s=1.0)


def call(executor: ToolExecutor, code: str) -> ToolResult:
    (result,) = executor.run([executor.check(ToolCall("python", {"code": code}))])
    return result


@pytest.fixture(scope="module")
def stateless() -> ToolExecutor:
    return ToolExecutor([python_tool(LIMITS)])


@pytest.mark.parametrize(
    ("code", "content"),
    [
        ("print(6 * 7)", "42"),
        ("6 * 7", "42"),
        ("print('a')\n'b'", "a\n'b'"),
        ("x = 6 * 7", NO_OUTPUT),
        ("import sys; print('warned', file=sys.stderr)", "warned"),
    ],
)
def test_output_and_value_are_what_the_policy_reads(stateless: ToolExecutor, code: str, content: str) -> None:
    assert call(stateless, code) == ToolResult(content, kind=EventKind.CALL)


def test_calls_share_nothing(stateless: ToolExecutor) -> None:
    call(stateless, "x = 1")
    assert "NameError: name 'x' is not defined" in call(stateless, "x").content


def test_an_exception_is_the_policys_mistake(stateless: ToolExecutor) -> None:
    result = call(stateless, "print('so far')\n1 / 0")
    assert result.kind is EventKind.TOOL_ERROR
    assert result.content.startswith("Error: Traceback (most recent call last):")
    assert result.content.endswith("ZeroDivisionError: division by zero\nOutput before that:\nso far")


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("while True: pass", "Error: the code ran longer than 1 s and was stopped"),
        ("x = [0] * 10**10", "MemoryError"),
        ("import os; os._exit(3)", "Error: the code ended its own Python process (exit code 3)"),
        ("import os; os.kill(os.getpid(), 11)", "SIGSEGV"),
    ],
)
def test_whatever_the_code_does_is_no_failure_of_the_infrastructure(
    stateless: ToolExecutor, code: str, words: str
) -> None:
    result = call(stateless, code)
    assert result.kind is EventKind.TOOL_ERROR
    assert words in result.content


def test_missing_code_is_named(stateless: ToolExecutor) -> None:
    assert stateless.check(ToolCall("python", {})).kind is EventKind.INVALID_ARGUMENTS


def test_the_tool_is_registered_and_described() -> None:
    made = TOOLS.get("python")()
    assert made.name == "python"
    assert list(made.parameters["properties"]) == ["code"]
    assert "Each call starts afresh" in made.description
    assert made.timeout_s is not None and made.timeout_s > Limits().timeout_s


def test_a_toolbox_keeps_its_variables_and_forks() -> None:
    toolbox = PythonToolbox(LIMITS)
    executor = ToolExecutor(toolbox.tools)
    call(executor, "x = 1")
    fork = toolbox.fork()
    assert call(executor, "x += 1; x").content == "2"
    assert call(ToolExecutor(fork.tools), "x").content == "1"
    toolbox.close()
    toolbox.close()
    fork.close()


@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda toolbox: pickle.loads(pickle.dumps(toolbox))])
def test_a_copied_toolbox_has_a_session_of_its_own(duplicate: Callable[[PythonToolbox], PythonToolbox]) -> None:
    toolbox = PythonToolbox(LIMITS)
    call(ToolExecutor(toolbox.tools), "x = 1")
    twin = duplicate(toolbox)
    assert call(ToolExecutor(twin.tools), "x += 1; x").content == "2"
    assert call(ToolExecutor(toolbox.tools), "x").content == "1"
    assert twin.tools[0].lock is not toolbox.tools[0].lock
    toolbox.close()
    twin.close()


def test_a_lost_session_is_announced() -> None:
    toolbox = PythonToolbox(LIMITS)
    executor = ToolExecutor(toolbox.tools)
    call(executor, "x = 1")
    call(executor, "while True: pass")
    assert call(executor, "print('hello')").content == f"{RESTARTED}\nhello"
    assert call(executor, "print('again')").content == "again"
    toolbox.close()


def test_calls_of_one_turn_run_in_order() -> None:
    toolbox = PythonToolbox(LIMITS)
    executor = ToolExecutor(toolbox.tools)
    calls = [ToolCall("python", {"code": code}) for code in ("x = [1]", "x.append(2)", "x")]
    assert executor.run([executor.check(each) for each in calls])[-1].content == "[1, 2]"
    toolbox.close()
