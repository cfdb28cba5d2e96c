"""A part whose value a function of the user's gives, such as one that asks a language model.

The function runs as tools do: within a deadline, tried again when it fails, awaited if it is async. Where it still
fails, the episode ends as truncated and counts for nothing: a judge that is down must not teach.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import math
import numbers
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeAlias, TypeVar

from agent_envs.errors import ConfigError, ToolFailureError
from agent_envs.named_functions import load_function, require_arguments
from agent_envs.rewards.parts import Part, PartValue, end_parts
from agent_envs.tasks.base import Outcome
from agent_envs.tools.base import Tool, ToolOutput
from agent_envs.tools.executor import ToolExecutor
from agent_envs.types import EventKind, ToolCall

ItemT = TypeVar("ItemT")

JudgeFunction: TypeAlias = Callable[[str, str, tuple[str, ...]], Any]

KEPT_VERDICTS = 4096


def judge_part(read: Callable[[ItemT], tuple[str, Sequence[str]]]) -> Part[ItemT]:
    """The part ``judge`` of a task; ``read`` gives an item's question and accepted answers."""

    def judge(by: str, timeout_s: float = 30.0, retries: int = 2) -> PartValue[ItemT]:
        """What the function ``by`` says of the answer, 0 to 1; 0 without an answer.

        ``by`` is ``"module:function"`` or ``"folder/file.py:function"``. It is called as
        ``function(question, answer, accepted)``, once per distinct answer: its last verdicts are kept.
        """
        verdict_on = _asking(by, timeout_s, retries)

        def value(outcome: Outcome[ItemT]) -> float:
            answer = outcome.turns[-1].answer
            if answer is None:
                return 0.0
            question, accepted = read(outcome.item)
            return verdict_on(question, answer, tuple(accepted))

        return value

    return dataclasses.replace(end_parts(judge), may_block=True)


@functools.lru_cache(maxsize=16)
def _asking(by: str, timeout_s: float, retries: int) -> Callable[[str, str, tuple[str, ...]], float]:
    """The judge of that name as a plain function that gives a number in [0, 1] or raises.

    All environments of a process share it, so that members of a group with the same answer ask once.

    Raises:
        ConfigError: there is no such function, or the numbers are out of range.
    """
    function: JudgeFunction = load_function(by, "judge(by=...)")
    require_arguments(function, f"the judge {by}", "the question", "the answer", "the accepted answers")
    tool = Tool("judge", f"Asks {by}.", {}, _reporting(function), dict, timeout_s=timeout_s, retries=retries)
    executor = ToolExecutor((tool,))

    @functools.lru_cache(KEPT_VERDICTS)
    def ask(question: str, answer: str, accepted: tuple[str, ...]) -> float:
        call = ToolCall(tool.name, {"question": question, "answer": answer, "accepted": accepted})
        result = executor.run((call,))[0]
        if result.kind is not EventKind.CALL:
            raise ToolFailureError(f"{by}: {result.content}")
        verdict = result.data["verdict"]
        if verdict is None or not 0.0 <= verdict <= 1.0:
            raise ConfigError(f"the judge {by} must give a number from 0 to 1, not {result.content}")
        return float(verdict)

    return ask


def _reporting(function: JudgeFunction) -> Callable[..., ToolOutput | Awaitable[ToolOutput]]:
    """The judge as a tool's function: its verdict as data, what it literally gave as text."""

    def report(verdict: object) -> ToolOutput:
        number = float(verdict) if isinstance(verdict, numbers.Real) else math.nan
        return ToolOutput(repr(verdict)[:100], {"verdict": None if math.isnan(number) else number})

    async def awaited(verdict: Awaitable[object]) -> ToolOutput:
        return report(await verdict)

    def run(question: str, answer: str, accepted: tuple[str, ...]) -> ToolOutput | Awaitable[ToolOutput]:
        verdict = function(question, answer, accepted)
        return awaited(verdict) if inspect.isawaitable(verdict) else report(verdict)

    return run
