"""Running calls: order, batches, deadlines, and the three kinds of error kept apart."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import numpy as np
import pydantic
import pytest

from agent_envs.errors import ConfigError, ToolFailureError, ToolUseError
from agent_envs.tools import ToolExecutor, ToolOutput, tool
from agent_envs.types import EventKind, ToolCall

SHELF = {"a": "apple"}


def double(x: int) -> str:
    """Double a number."""
    if x < 0:
        raise ToolUseError("x is a natural number")
    if x > 99:
        raise RuntimeError("overheated")
    return str(2 * x)


def pick(key: Annotated[str, pydantic.AfterValidator(SHELF.__getitem__)]) -> str:
    """Pick something."""
    return key


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


def test_a_misspelt_tool_is_named_rightly() -> None:
    call = ToolExecutor([tool(double)]).check(ToolCall("duoble", {}))
    assert call.error == "there is no tool named 'duoble'; did you mean double? the tools are: double"


def test_two_tools_of_one_name_are_refused() -> None:
    with pytest.raises(ConfigError, match="share a name"):
        ToolExecutor([tool(double), tool(double)])


# ------------------------------------------------------------------------------------------------------------ deadlines


def test_deadlines_of_calls_side_by_side_run_at_the_same_time() -> None:
    release = threading.Event()

    def hang() -> str:
        """Hang."""
        release.wait(10)
        return "late"

    executor = ToolExecutor([tool(hang, timeout_s=0.15)])
    start = time.perf_counter()
    results = run(executor, *[ToolCall("hang", {})] * 6)
    release.set()
    assert time.perf_counter() - start < 0.6  # one after another they would take 0.9
    assert [kind for _, kind in results] == [EventKind.TOOL_FAILURE] * 6


def test_a_result_after_the_deadline_is_late_even_while_another_call_is_awaited() -> None:
    expired, answered = threading.Event(), threading.Event()

    def late() -> str:
        """Answer too late."""
        expired.wait(10)
        answered.set()
        return "late"

    def caller() -> str:
        """Run in the caller's thread until the other's deadline has passed."""
        time.sleep(0.1)
        expired.set()
        answered.wait(10)
        time.sleep(0.05)  # leaves the late result time to arrive
        return "done"

    executor = ToolExecutor([tool(late, timeout_s=0.05), tool(caller, timeout_s=None)])
    assert run(executor, ToolCall("late", {}), ToolCall("caller", {})) == [
        ("Error: late did not answer within 0.05 s", EventKind.TOOL_FAILURE),
        ("done", EventKind.CALL),
    ]


def test_no_thread_is_left_once_calls_have_ended() -> None:
    before = threading.active_count()
    run(ToolExecutor([tool(double)]), *[ToolCall("double", {"x": 1})] * 5)
    assert threading.active_count() == before


# -------------------------------------------------------------------------------------------------------------- retries


class Flaky:
    """Fails a number of times, then answers."""

    def __init__(self, failures: int, error: Exception) -> None:
        self.failures = failures
        self.error = error
        self.attempts = 0

    def ask(self) -> str:
        """Ask."""
        self.attempts += 1
        if self.attempts <= self.failures:
            raise self.error
        return f"answer {self.attempts}"


@pytest.mark.parametrize("timeout_s", [None, 5.0])
def test_failures_of_the_infrastructure_are_tried_again(timeout_s: float | None) -> None:
    flaky = Flaky(1, ConnectionError("reset"))
    assert run(ToolExecutor([tool(flaky.ask, retries=1, timeout_s=timeout_s)]), ToolCall("ask", {})) == [
        ("answer 2", EventKind.CALL)
    ]


def test_attempts_are_bounded_by_their_number() -> None:
    flaky = Flaky(10, ConnectionError("reset"))
    ((content, kind),) = run(ToolExecutor([tool(flaky.ask, retries=1)]), ToolCall("ask", {}))
    assert (flaky.attempts, kind) == (2, EventKind.TOOL_FAILURE)
    assert content == "Error: ask failed (ConnectionError: reset)"


def test_attempts_are_bounded_by_the_deadline() -> None:
    flaky = Flaky(10**9, ConnectionError("reset"))
    start = time.perf_counter()
    ((content, _),) = run(ToolExecutor([tool(flaky.ask, retries=10**9, timeout_s=0.2)]), ToolCall("ask", {}))
    assert time.perf_counter() - start < 1
    assert content == "Error: ask failed (ConnectionError: reset)"  # no time was left for a third attempt
    assert flaky.attempts == 2


def test_the_callers_mistake_is_not_tried_again() -> None:
    flaky = Flaky(10, ToolUseError("ask something else"))
    assert run(ToolExecutor([tool(flaky.ask, retries=5)]), ToolCall("ask", {})) == [
        ("Error: ask something else", EventKind.TOOL_ERROR)
    ]
    assert flaky.attempts == 1


# ------------------------------------------------------------------------------------------- tools that run alone


class Diary:
    """Notes when calls begin and end."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.inside = 0
        self.most = 0

    def note(self, name: str) -> str:
        self.inside += 1
        self.most = max(self.most, self.inside)
        self.lines.append(name)
        time.sleep(0.02)
        self.inside -= 1
        return name

    def read(self, name: str) -> str:
        """Read."""
        return self.note(name)

    def write(self, name: str) -> str:
        """Write."""
        return self.note(name)


@pytest.mark.parametrize("timeout_s", [None, 5.0])
def test_a_tool_that_runs_alone_keeps_its_place_among_the_calls(timeout_s: float | None) -> None:
    diary = Diary()
    executor = ToolExecutor([tool(diary.read), tool(diary.write, concurrent=False, timeout_s=timeout_s)])
    names = [("read", "a"), ("read", "b"), ("write", "c"), ("write", "d"), ("read", "e"), ("write", "f")]
    results = run(executor, *[ToolCall(which, {"name": name}) for which, name in names])
    assert [content for content, _ in results] == list("abcdef")
    assert (sorted(diary.lines[:2]), diary.lines[2:]) == (["a", "b"], list("cdef"))
    assert diary.most == 2  # the two reads at the beginning


def test_episodes_that_share_a_tool_that_runs_alone_take_turns() -> None:
    diary = Diary()
    made = tool(diary.write, concurrent=False)
    threads = [
        threading.Thread(target=run, args=(ToolExecutor([made]), ToolCall("write", {"name": str(n)}))) for n in range(5)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert (len(diary.lines), diary.most) == (5, 1)


def test_nothing_runs_beside_a_call_that_hangs() -> None:
    release = threading.Event()
    ran = []

    def hang() -> str:
        """Hang."""
        release.wait(10)
        return "late"

    def write() -> str:
        """Write."""
        ran.append(True)
        return "written"

    executor = ToolExecutor([tool(hang, timeout_s=0.05), tool(write, concurrent=False)])
    results = run(executor, ToolCall("hang", {}), ToolCall("write", {}))
    release.set()
    assert results[1] == ("Error: write was not run, because hang hangs", EventKind.TOOL_FAILURE)
    assert ran == []


def test_a_call_that_waited_in_vain_is_never_run() -> None:
    entered, release = threading.Event(), threading.Event()
    ran = []

    def use(name: str) -> str:
        """Use the one thing there is."""
        ran.append(name)
        entered.set()
        release.wait(10)
        return name

    made = tool(use, concurrent=False, timeout_s=0.1)
    first = threading.Thread(target=run, args=(ToolExecutor([made]), ToolCall("use", {"name": "first"})))
    first.start()
    entered.wait(10)
    ((content, kind),) = run(ToolExecutor([made]), ToolCall("use", {"name": "second"}))
    release.set()
    first.join(10)
    assert kind is EventKind.TOOL_FAILURE
    assert content.startswith("Error: use ")
    assert made.lock.acquire(5.0)  # nobody waits for it any more
    assert ran == ["first"]


# ------------------------------------------------------------------------------------------------------ async functions


def test_async_functions_and_batches_run_to_their_end() -> None:
    async def greet(name: str) -> str:
        """Greet."""
        await asyncio.sleep(0)
        return f"hello {name}"

    async def greet_all(calls: Sequence[Mapping[str, Any]]) -> list[str]:
        return list(await asyncio.gather(*[greet(call["name"]) for call in calls]))

    calls = [ToolCall("greet", {"name": name}) for name in ("a", "b")]
    for made in (tool(greet), tool(greet, timeout_s=None), tool(greet, batch=greet_all)):
        assert [content for content, _ in run(ToolExecutor([made]), *calls)] == ["hello a", "hello b"]


def test_async_functions_run_where_a_loop_runs_already() -> None:
    async def greet() -> str:
        """Greet."""
        await asyncio.sleep(0)
        return "hello"

    async def notebook() -> list[tuple[str, EventKind]]:
        return run(ToolExecutor([tool(greet, timeout_s=None)]), ToolCall("greet", {}))

    assert asyncio.run(notebook()) == [("hello", EventKind.CALL)]


def test_an_async_function_is_cancelled_at_its_deadline() -> None:
    cleaned_up = threading.Event()

    async def hang() -> str:
        """Hang."""
        try:
            await asyncio.sleep(60)
        finally:
            cleaned_up.set()
        return "late"

    results = run(ToolExecutor([tool(hang, timeout_s=0.05)]), ToolCall("hang", {}))
    assert results == [("Error: hang did not answer within 0.05 s", EventKind.TOOL_FAILURE)]
    assert cleaned_up.wait(5)


# ------------------------------------------------------------------------------------------------- failures and results


class Speechless(Exception):
    """An error that fails at its own message."""

    def __str__(self) -> str:
        raise ValueError


@pytest.mark.parametrize("timeout_s", [None, 5.0])
@pytest.mark.parametrize(
    ("error", "words"),
    [
        (SystemExit(3), "Error: crash failed (SystemExit: 3)"),
        (GeneratorExit(), "Error: crash failed (GeneratorExit)"),
        (asyncio.CancelledError(), "Error: crash failed (CancelledError)"),
        (MemoryError(), "Error: crash failed (MemoryError)"),
        (Speechless(), "Error: crash failed (Speechless)"),
        (ToolFailureError("no server"), "Error: crash failed (ToolFailureError: no server)"),
        (ValueError("x" * 10_000), f"Error: crash failed (ValueError: {'x' * 500}...)"),
        (ValueError("half \ud800 a pair"), "Error: crash failed (ValueError: half \ufffd a pair)"),
    ],
)
def test_whatever_a_tool_raises_is_its_failure(error: BaseException, words: str, timeout_s: float | None) -> None:
    def crash() -> str:
        """Crash."""
        raise error

    assert run(ToolExecutor([tool(crash, timeout_s=timeout_s)]), ToolCall("crash", {})) == [
        (words, EventKind.TOOL_FAILURE)
    ]


def test_ctrl_c_is_the_users_and_a_keyboard_interrupt_in_a_tools_thread_is_the_tools() -> None:
    def interrupt() -> str:
        """Raise what Ctrl-C raises."""
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(ToolExecutor([tool(interrupt, timeout_s=None)]), ToolCall("interrupt", {}))
    assert run(ToolExecutor([tool(interrupt)]), ToolCall("interrupt", {})) == [
        ("Error: interrupt failed (KeyboardInterrupt)", EventKind.TOOL_FAILURE)
    ]


def test_a_batch_may_refuse_one_of_its_calls() -> None:
    def run_batch(calls: Sequence[Mapping[str, Any]]) -> list[str | ToolUseError]:
        return [str(call["x"]) if call["x"] else ToolUseError("x is not 0") for call in calls]

    executor = ToolExecutor([tool(double, batch=run_batch)])
    assert run(executor, ToolCall("double", {"x": 1}), ToolCall("double", {"x": 0})) == [
        ("1", EventKind.CALL),
        ("Error: x is not 0", EventKind.TOOL_ERROR),
    ]


def test_a_crash_in_a_types_own_validator_is_the_tools_failure() -> None:
    executor = ToolExecutor([tool(pick)])
    ((content, kind),) = run(executor, ToolCall("pick", {"key": "z"}))
    assert (content, kind) == ("Error: pick failed (KeyError: 'z')", EventKind.TOOL_FAILURE)


def test_data_is_a_plain_copy() -> None:
    state: dict[str, Any] = {"seen": ["a"], "pair": (1, 2.5), "none": None}

    def look() -> ToolOutput:
        """Look."""
        return ToolOutput("ok", state)

    executor = ToolExecutor([tool(look)])
    (result,) = executor.run([ToolCall("look", {})])
    state["seen"].append("b")
    assert result.data == {"seen": ["a"], "pair": [1, 2.5], "none": None}


@pytest.mark.parametrize(
    ("data", "complaint"),
    [
        (
            {"a": [1, {"b": object()}]},
            "ToolOutput.data['a'][1]['b'] must be plain data (what JSON can write), not object",
        ),
        ({1: 2}, "ToolOutput.data must be plain data: its keys are str, not int"),
        ({"a": np.float32(1)}, "ToolOutput.data['a'] must be plain data (what JSON can write), not float32"),
    ],
)
def test_data_that_json_cannot_write_is_the_tools_failure(data: dict[Any, Any], complaint: str) -> None:
    def look() -> ToolOutput:
        """Look."""
        return ToolOutput("ok", data)

    ((content, kind),) = run(ToolExecutor([tool(look)]), ToolCall("look", {}))
    assert (content, kind) == (f"Error: look failed (TypeError: {complaint})", EventKind.TOOL_FAILURE)


def test_text_that_no_tokenizer_can_encode_is_mended() -> None:
    def echo(text: str) -> str:
        """Echo."""
        return text

    executor = ToolExecutor([tool(echo)])
    assert run(executor, ToolCall("echo", {"text": "a\ud83d\ude00b"})) == [("a\U0001f600b", EventKind.CALL)]
    (unknown,) = executor.run([executor.check(ToolCall("ech\ud800", {}))])
    (invalid,) = executor.run([executor.check(ToolCall("echo", {"tex\udfff": 1}))])
    assert unknown.content.encode()
    assert invalid.content.encode()


def test_results_carry_the_tools_budget() -> None:
    executor = ToolExecutor([tool(double, max_output_tokens=7), tool(double, name="twice")])
    calls = [ToolCall("double", {"x": 1}), ToolCall("double", {"x": 100}), ToolCall("twice", {"x": 1})]
    assert [result.max_tokens for result in executor.run(calls)] == [7, 7, None]
