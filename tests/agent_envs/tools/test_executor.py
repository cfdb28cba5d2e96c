"""Running calls: order, batches, deadlines, and the three kinds of error kept apart."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from agent_envs.errors import ToolUseError
from agent_envs.tools import ToolExecutor, tool
from agent_envs.types import EventKind, ToolCall


def double(x: int) -> str:
    """Double a number."""
    if x < 0:
        raise ToolUseError("x is a natural number")
    if x > 99:
        raise RuntimeError("overheated")
    return str(2 * x)


def run(executor: ToolExecutor, *calls: ToolCall) -> list[tuple[str, EventKind]]:
    return [(result.content, result.kind) for result in executor.run([executor.check(call) for call in calls])]


def test_results_keep_the_order_of_the_calls() -> None:
    calls = [ToolCall("double", {"x": x}) for x in (3, 1, 2)]
    assert [content for content, _ in run(ToolExecutor([tool(double)]), *calls)] == ["6", "2", "4"]


def test_mistakes_of_the_policy_come_back_as_text_it_can_act_on() -> None:
    executor = ToolExecutor([tool(double)])
    unknown, invalid, refused = run(
        executor, ToolCall("triple", {}), ToolCall("double", {"x": "?"}), ToolCall("double", {"x": -1})
    )
    assert unknown == ("Error: there is no tool named 'triple'; the tools are: double", EventKind.UNKNOWN_TOOL)
    assert invalid[1] is EventKind.INVALID_ARGUMENTS
    assert refused == ("Error: x is a natural number", EventKind.TOOL_ERROR)


@pytest.mark.parametrize("timeout_s", [None, 5.0])
def test_a_crash_is_a_failure_of_that_call_alone(timeout_s: float | None) -> None:
    executor = ToolExecutor([tool(double, timeout_s=timeout_s)])
    crashed, fine = run(executor, ToolCall("double", {"x": 100}), ToolCall("double", {"x": 4}))
    assert crashed == ("Error: double failed (RuntimeError: overheated)", EventKind.TOOL_FAILURE)
    assert fine == ("8", EventKind.CALL)


def test_a_tool_that_gives_no_text_fails() -> None:
    def nothing() -> str:
        """Give nothing."""
        return None  # type: ignore[return-value]

    ((content, kind),) = run(ToolExecutor([tool(nothing)]), ToolCall("nothing", {}))
    assert kind is EventKind.TOOL_FAILURE
    assert "not NoneType" in content


def test_a_hanging_call_fails_at_its_deadline_and_its_late_result_is_dropped() -> None:
    release = threading.Event()

    def hang() -> str:
        """Hang."""
        release.wait(10)
        return "late"

    executor = ToolExecutor([tool(hang, timeout_s=0.05)])
    start = time.perf_counter()
    results = run(executor, ToolCall("hang", {}))
    assert time.perf_counter() - start < 5
    release.set()
    assert results == [("Error: hang did not answer within 0.05 s", EventKind.TOOL_FAILURE)]


def test_calls_run_side_by_side() -> None:
    barrier = threading.Barrier(3, timeout=10)  # passes only if three calls are inside at once

    def meet() -> str:
        """Meet the others."""
        barrier.wait()
        return "met"

    assert [content for content, _ in run(ToolExecutor([tool(meet)]), *[ToolCall("meet", {})] * 3)] == ["met"] * 3


def test_a_batch_form_gets_all_calls_at_once() -> None:
    sizes = []

    def run_batch(calls: Sequence[Mapping[str, Any]]) -> list[str]:
        sizes.append(len(calls))
        return [str(call["x"]) for call in calls]

    executor = ToolExecutor([tool(double, batch=run_batch)])
    calls = [ToolCall("double", {"x": 1}), ToolCall("double", {"x": "bad"}), ToolCall("double", {"x": 2})]
    assert [kind for _, kind in run(executor, *calls)] == [EventKind.CALL, EventKind.INVALID_ARGUMENTS, EventKind.CALL]
    assert sizes == [2]


def test_a_batch_of_the_wrong_size_fails() -> None:
    executor = ToolExecutor([tool(double, batch=lambda calls: ["only one"])])
    results = run(executor, ToolCall("double", {"x": 1}), ToolCall("double", {"x": 2}))
    assert [kind for _, kind in results] == [EventKind.TOOL_FAILURE] * 2


def test_two_tools_of_one_name_are_refused() -> None:
    with pytest.raises(ValueError, match="share a name"):
        ToolExecutor([tool(double), tool(double)])
