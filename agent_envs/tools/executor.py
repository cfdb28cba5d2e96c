"""Runs a turn's tool calls: validation, batches, threads, deadlines.

The policy's mistakes come back as results it can act on. A tool that fails or runs past its deadline gives a result of
kind ``TOOL_FAILURE``, on which the episode ends as truncated.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import TypeAlias

from agent_envs.errors import ToolUseError
from agent_envs.tools.base import Tool, ToolOutput
from agent_envs.types import EventKind, ToolCall, ToolResult

_Job: TypeAlias = tuple[Tool, "list[tuple[int, dict[str, object]]]"]  # a tool, and (position, arguments) of its calls


class ToolExecutor:
    """The tools of an environment. Holds no thread between calls, so that it can be forked and copied."""

    def __init__(self, tools: Sequence[Tool]) -> None:
        """Takes the tools by their names.

        Raises:
            ValueError: two tools share a name.
        """
        self.tools = {tool.name: tool for tool in tools}
        if len(self.tools) != len(tools):
            raise ValueError(f"two tools share a name: {[tool.name for tool in tools]}")

    def check(self, call: ToolCall) -> ToolCall:
        """The call with its arguments validated, or with the error that the policy should read."""
        if call.error is not None:
            return call
        tool = self.tools.get(call.name)
        if tool is None:
            known = ", ".join(self.tools) or "none"
            error = f"there is no tool named {call.name!r}; the tools are: {known}"
            return ToolCall(call.name, call.arguments, error, EventKind.UNKNOWN_TOOL)
        try:
            tool.validate(call.arguments)
        except ToolUseError as error:
            return ToolCall(call.name, call.arguments, str(error), EventKind.INVALID_ARGUMENTS)
        return call

    def run(self, calls: Sequence[ToolCall]) -> tuple[ToolResult, ...]:
        """One result per checked call, in order. Calls of different tools run at the same time."""
        results: list[ToolResult | None] = [
            None if call.error is None else ToolResult(f"Error: {call.error}", kind=call.kind) for call in calls
        ]
        _run_jobs([_prepare(job, results) for job in self._jobs(calls)])
        return tuple(
            result or ToolResult("Error: the tool gave nothing", kind=EventKind.TOOL_FAILURE) for result in results
        )

    def _jobs(self, calls: Sequence[ToolCall]) -> list[_Job]:
        """One job per batching tool, one per call otherwise."""
        jobs: list[_Job] = []
        batches: dict[str, _Job] = {}
        for position, call in enumerate(calls):
            if call.error is not None:
                continue
            tool = self.tools[call.name]
            if call.name not in batches or tool.batch is None:
                batches[call.name] = (tool, [])
                jobs.append(batches[call.name])
            batches[call.name][1].append((position, tool.validate(call.arguments)))
        return jobs


def _prepare(job: _Job, results: list[ToolResult | None]) -> tuple[Tool, Callable[[], None], Callable[[], None]]:
    """The job's tool, its work, and what to do when its deadline passes."""
    tool, calls = job
    positions = [position for position, _ in calls]
    closed = threading.Event()

    def work() -> None:
        outcome = _call(tool, [arguments for _, arguments in calls])
        if not closed.is_set():  # a late result must not reach an episode that has gone on
            for position, result in zip(positions, outcome, strict=True):
                results[position] = result

    def expire() -> None:
        closed.set()
        for position in positions:
            results[position] = ToolResult(
                f"Error: {tool.name} did not answer within {tool.timeout_s} s", kind=EventKind.TOOL_FAILURE
            )

    return tool, work, expire


def _run_jobs(jobs: Sequence[tuple[Tool, Callable[[], None], Callable[[], None]]]) -> None:
    threads = []
    for tool, work, expire in jobs:
        if tool.timeout_s is None:
            continue
        # Daemon threads: a hanging tool must not keep the process from ending.
        thread = threading.Thread(target=work, name=f"tool-{tool.name}", daemon=True)
        thread.start()
        threads.append((thread, tool.timeout_s, expire))
    for tool, work, _ in jobs:
        if tool.timeout_s is None:
            work()
    for thread, timeout_s, expire in threads:
        thread.join(timeout_s)
        if thread.is_alive():
            expire()


def _call(tool: Tool, arguments: list[dict[str, object]]) -> list[ToolResult]:
    try:
        batch = tool.batch or (lambda many: [tool.function(**one) for one in many])
        outputs = list(batch(arguments))
        if len(outputs) != len(arguments):
            raise RuntimeError(f"the batch gave {len(outputs)} outputs for {len(arguments)} calls")
        return [_as_result(output) for output in outputs]
    except ToolUseError as error:
        return [ToolResult(f"Error: {error}", kind=EventKind.TOOL_ERROR)] * len(arguments)
    except Exception as error:
        text = f"Error: {tool.name} failed ({type(error).__name__}: {error})"
        return [ToolResult(text, kind=EventKind.TOOL_FAILURE)] * len(arguments)


def _as_result(output: str | ToolOutput) -> ToolResult:
    if isinstance(output, ToolOutput):
        return ToolResult(output.content, output.data)
    if isinstance(output, str):
        return ToolResult(output)
    raise TypeError(f"a tool gives str or ToolOutput, not {type(output).__name__}")
