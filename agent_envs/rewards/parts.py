"""What rewards are made of: a part is a number read off the episode so far.

A part that is paid at the end counts once, with the turn that ends the episode. A part that is paid per turn gives each
turn what it added, ``value(after) - value(before)``; summed over an episode this is ``value(end) - value(start)``, on
whatever way it was reached. Parts see what ``Outcome`` holds: the policy's own words, and the tools' data.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeAlias, TypeVar

from agent_envs.errors import ConfigError
from agent_envs.rewards.expression import Parameter
from agent_envs.tasks.base import Outcome
from agent_envs.types import EventKind

ItemT = TypeVar("ItemT")

When: TypeAlias = Literal["turn", "end"]
PartValue: TypeAlias = Callable[[Outcome[ItemT]], float]


@dataclass(frozen=True, slots=True)
class Part(Generic[ItemT]):
    """A part that expressions can name.

    Attributes:
        name: as expressions write it.
        summary: what it measures, its unit and range: the first paragraph of the docstring.
        when: paid per "turn" or at the "end".
        make: takes the parameters by keyword (annotated int, float or str) and gives the function that reads the value.
        may_block: reading it may wait for somebody.
    """

    name: str
    summary: str
    when: When
    make: Callable[..., PartValue[ItemT]]
    may_block: bool = False

    def bind(self, parameters: dict[str, Parameter]) -> PartValue[ItemT]:
        """The function that reads the value, with these parameters.

        Raises:
            ConfigError: a parameter is unknown, missing, of the wrong type or out of range.
        """
        known = inspect.signature(self.make, eval_str=True).parameters
        for name, value in parameters.items():
            if name not in known:
                takes = ", ".join(known) or "no parameters"
                raise ConfigError(f"the reward part {self.name} has no parameter {name!r}; it takes {takes}")
            wanted = known[name].annotation
            if not isinstance(value, (int, float) if wanted is float else wanted):
                raise ConfigError(f"{self.name}({name}=...) takes {wanted.__name__}, not {value!r}")
        for name, parameter in known.items():
            if parameter.default is parameter.empty and name not in parameters:
                raise ConfigError(f"the reward part {self.name} needs its parameter {name!r}: {self.summary}")
        return self.make(**parameters)


def turn_part(value: PartValue[ItemT]) -> Part[ItemT]:
    """A part without parameters that is paid per turn; ``value`` must also read an episode of no turns."""
    return Part(*_words(value), "turn", lambda: value)


def end_part(value: PartValue[ItemT]) -> Part[ItemT]:
    """A part without parameters that is paid at the end."""
    return Part(*_words(value), "end", lambda: value)


def turn_parts(make: Callable[..., PartValue[ItemT]]) -> Part[ItemT]:
    """A part with parameters, those of ``make``, that is paid per turn."""
    return Part(*_words(make), "turn", make)


def end_parts(make: Callable[..., PartValue[ItemT]]) -> Part[ItemT]:
    """A part with parameters, those of ``make``, that is paid at the end."""
    return Part(*_words(make), "end", make)


def answered(outcome: Outcome[Any]) -> float:
    """1 where the policy gave a final answer, right or wrong, else 0."""
    return float(outcome.turns[-1].answer is not None)


def answer_format(outcome: Outcome[Any]) -> float:
    """1 where the last turn holds exactly one answer that isn't empty, else 0."""
    return float(outcome.turns[-1].answer_well_formed)


def tool_format(outcome: Outcome[Any]) -> float:
    """1 where no call of the episode was malformed, unknown or ill-typed (so also without any call), else 0."""
    return float(not any(event.kind.is_malformed for event in outcome.events))


def format_score(outcome: Outcome[Any]) -> float:
    """The mean of answer_format and tool_format: 0, 0.5 or 1."""
    return (answer_format(outcome) + tool_format(outcome)) / 2


def turns(outcome: Outcome[Any]) -> float:
    """Turns of the policy, 1 per turn."""
    return float(len(outcome.turns))


def tool_calls(free: int = 0) -> PartValue[Any]:
    """Well-formed tool calls beyond the first ``free`` ones of the episode, 1 per call."""
    _require_count("tool_calls", "free", free)
    return lambda outcome: float(max(0, _count(outcome, EventKind.CALL) - free))


def malformed_calls(outcome: Outcome[Any]) -> float:
    """Calls that were malformed, unknown or ill-typed, 1 per call."""
    return float(sum(event.kind.is_malformed for event in outcome.events))


def no_action_turns(outcome: Outcome[Any]) -> float:
    """Turns with neither a call nor an answer, 1 per turn."""
    return float(_count(outcome, EventKind.NO_ACTION))


def length(limit: int = 0) -> PartValue[Any]:
    """Tokens that the policy wrote in the episode beyond the first ``limit`` ones, 1 per token."""
    _require_count("length", "limit", limit)
    return lambda outcome: float(max(0, sum(turn.stop - turn.start for turn in outcome.turns) - limit))


def common_metrics(outcome: Outcome[Any]) -> dict[str, float]:
    """What every task can say of a finished episode: its return, format, and counts."""
    return {
        "reward": sum(turn.reward for turn in outcome.turns),
        "format": format_score(outcome),
        "answered": answered(outcome),
        "turns": turns(outcome),
        "tool_calls": tool_calls()(outcome),
        "malformed_calls": malformed_calls(outcome),
        "no_action_turns": no_action_turns(outcome),
    }


def _count(outcome: Outcome[Any], kind: EventKind) -> int:
    return sum(event.kind is kind for event in outcome.events)


def _require_count(part: str, name: str, value: int) -> None:
    if value < 0:
        raise ConfigError(f"{part}({name}=...) is a whole number >= 0, not {value}")


def _words(function: Callable[..., Any]) -> tuple[str, str]:
    """The part's name and summary, from the function's."""
    paragraph = (inspect.getdoc(function) or "").split("\n\n")[0]
    return function.__name__, " ".join(paragraph.split())


COMMON_PARTS: tuple[Part[Any], ...] = (
    end_part(answered),
    end_part(answer_format),
    end_part(tool_format),
    Part("format", _words(format_score)[1], "end", lambda: format_score),
    turn_part(turns),
    turn_parts(tool_calls),
    turn_part(malformed_calls),
    turn_part(no_action_turns),
    turn_parts(length),
)
