"""One tool's work in a turn: attempts within a deadline, and whatever comes of it as results."""

from __future__ import annotations

import asyncio
import inspect
import threading
import time
from collections.abc import Awaitable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

from agent_envs.errors import ToolUseError
from agent_envs.tools.base import BatchOutput, Tool, ToolOutput
from agent_envs.types import EventKind, ToolResult

FIRST_BACKOFF_S = 0.1  # doubled after each further failure, up to
MAX_BACKOFF_S = 5.0
MAX_FAILURE_TEXT = 500

_PLAIN = (type(None), bool, int, float, str)


class Job:
    """Some calls of one tool. Its first outcome counts: after the deadline nothing reaches the episode any more."""

    def __init__(self, tool: Tool) -> None:
        self.tool = tool
        self.positions: list[int] = []
        self.arguments: list[Mapping[str, Any]] = []
        self.results: list[ToolResult] = []
        self.deadline: float | None = None
        self.running = False
        self._settled = threading.Event()
        self._guard = threading.Lock()

    def add(self, position: int, arguments: Mapping[str, Any]) -> None:
        """Takes a further call, the one at that position in the turn."""
        self.positions.append(position)
        self.arguments.append(arguments)

    def work(self) -> None:
        """Runs the calls, alone where the tool asks for that."""
        if self.tool.concurrent:
            self._run()
        elif self.tool.lock.acquire(self._left()):
            try:
                self._run()
            finally:
                self.tool.lock.release()
        else:
            self.give_up(f"was not run: other calls of it did not end within {self.tool.timeout_s} s")

    def expire(self) -> None:
        """Gives the job up because its time is over, unless it's done."""
        self.give_up(f"did not answer within {self.tool.timeout_s} s")

    def give_up(self, why: str) -> None:
        """Makes failures of the calls, unless they're done; whatever they still give goes nowhere."""
        self._settle([_failure(f"{self.tool.name} {why}")] * len(self.positions))

    def _settle(self, results: list[ToolResult]) -> None:
        with self._guard:
            if not self._settled.is_set():
                self.results = [_limited(result, self.tool.max_output_tokens) for result in results]
                self._settled.set()

    def _run(self) -> None:
        """Attempts until one succeeds, the retries are used up, or the time is."""
        if self._settled.is_set():
            return
        self.running = True
        for attempt in range(self.tool.retries + 1):
            results = self._attempt()
            backoff_s = min(MAX_BACKOFF_S, FIRST_BACKOFF_S * 2.0 ** min(attempt, 10))
            failed = any(result.kind is EventKind.TOOL_FAILURE for result in results)
            if not failed or attempt == self.tool.retries or not self._has_left(backoff_s):
                break
            if self._settled.wait(backoff_s):
                break
        self.running = False
        if self._has_left(0.0):
            self._settle(results)
        else:
            self.expire()

    def _attempt(self) -> list[ToolResult]:
        try:
            outputs = self._outputs()
            if len(outputs) != len(self.arguments):
                raise RuntimeError(f"the batch gave {len(outputs)} outputs for {len(self.arguments)} calls")
            return [_as_result(output) for output in outputs]
        except ToolUseError as error:
            return [_as_result(error)] * len(self.arguments)
        except BaseException as error:  # a tool that calls sys.exit must not end the run
            if isinstance(error, KeyboardInterrupt) and threading.current_thread() is threading.main_thread():
                raise  # not the tool's: Ctrl-C
            return [_failure(describe_failure(self.tool, error))] * len(self.arguments)

    def _outputs(self) -> BatchOutput:
        batch = self.tool.batch
        output: Any = self.tool.function(**self.arguments[0]) if batch is None else batch(self.arguments)
        if inspect.isawaitable(output):
            output = _awaited(output, self._left())
        return [output] if batch is None else list(output)

    def _left(self) -> float | None:
        return None if self.deadline is None else self.deadline - time.monotonic()

    def _has_left(self, seconds: float) -> bool:
        left = self._left()
        return left is None or left > seconds


def describe_failure(tool: Tool, error: BaseException) -> str:
    """A failure in words: the error's type and message, shortened."""
    try:
        message = str(error)
    except Exception:  # an error may fail at its own message, too
        message = ""
    message = message if len(message) <= MAX_FAILURE_TEXT else f"{message[:MAX_FAILURE_TEXT]}..."
    return f"{tool.name} failed ({type(error).__name__}{': ' if message else ''}{message})"


def clean_text(text: str) -> str:
    """The text with half surrogates, which no tokenizer can encode, replaced by U+FFFD."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _failure(text: str) -> ToolResult:
    return ToolResult(clean_text(f"Error: {text}"), kind=EventKind.TOOL_FAILURE)


def _as_result(output: object) -> ToolResult:
    if isinstance(output, ToolUseError):
        return ToolResult(clean_text(f"Error: {output}"), kind=EventKind.TOOL_ERROR)
    if isinstance(output, str):
        return ToolResult(clean_text(output))
    if isinstance(output, ToolOutput) and isinstance(output.content, str):
        return ToolResult(clean_text(output.content), _plain_mapping(output.data, "data"))
    raise TypeError(f"a tool gives str or ToolOutput, not {type(output).__name__}")


def _plain_mapping(data: Mapping[str, Any], where: str) -> dict[str, Any]:
    wrong = next((key for key in data if not isinstance(key, str)), None)
    if wrong is not None:
        raise TypeError(f"ToolOutput.{where} must be plain data: its keys are str, not {type(wrong).__name__}")
    return {key: _plain(value, f"{where}[{key!r}]") for key, value in data.items()}


def _plain(value: Any, where: str) -> Any:
    """A copy of plain data, so that a tool that goes on changing its state does not change the record."""
    if type(value) in _PLAIN:
        return value
    if isinstance(value, Mapping):
        return _plain_mapping(value, where)
    if isinstance(value, list | tuple):
        return [_plain(item, f"{where}[{position}]") for position, item in enumerate(value)]
    raise TypeError(f"ToolOutput.{where} must be plain data (what JSON can write), not {type(value).__name__}")


def _limited(result: ToolResult, max_tokens: int | None) -> ToolResult:
    return result if max_tokens is None else replace(result, max_tokens=max_tokens)


def _awaited(awaitable: Awaitable[Any], timeout_s: float | None) -> Any:
    """Waits in an event loop of its own; at the deadline the coroutine is cancelled, so that nothing of it stays."""

    async def wait() -> Any:
        return await asyncio.wait_for(awaitable, timeout_s)

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(wait())
    with ThreadPoolExecutor(1) as pool:  # the caller's thread runs a loop already, as notebooks do
        return pool.submit(asyncio.run, wait()).result()
