"""What a task is: items, a prompt, tools, and a judgement of what was done.

What a task says to the policy names no format: ``{answer_form}`` ("between <answer> and </answer>") and
``{answer_example}`` ("<answer>your answer</answer>") in its texts are filled in by the episode.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from agent_envs.formats.base import ParsedTurn
from agent_envs.tools.base import Tool
from agent_envs.types import Event, StopReason, ToolCall, Turn

ItemT = TypeVar("ItemT")


@dataclass(frozen=True, slots=True)
class Outcome(Generic[ItemT]):
    """What a task judges: the episode so far, by the policy's own words and the tools' data.

    Attributes:
        item: the question or task, gold answer included.
        turns: all turns so far; the last one is being judged.
        events: all events so far.
        reason: why the episode ends with this turn, or None where it goes on.
    """

    item: ItemT
    turns: tuple[Turn, ...]
    events: tuple[Event, ...]
    reason: StopReason | None


@dataclass(frozen=True, slots=True)
class OracleTurn:
    """A turn of a policy that knows the item: calls, the final answer, or plain words where the task takes them."""

    calls: tuple[ToolCall, ...] = ()
    answer: str | None = None
    text: str = ""


@dataclass(frozen=True, slots=True)
class Decision:
    """What a task makes of a turn before any of its calls has run.

    Attributes:
        over: the task itself ends with this turn; its calls are not run.
        message: what the user says next to a turn without calls; None for the task's hint that nothing was done.
    """

    over: bool = False
    message: str | None = None


def answer_ends(parsed: ParsedTurn) -> Decision:
    """The rule of most tasks: the final answer ends the episode."""
    return Decision(over=parsed.answer is not None)


class Toolbox(Protocol):
    """The tools of one episode, with whatever state they keep for it."""

    @property
    def tools(self) -> tuple[Tool, ...]:
        """The tools; names and schemas stay the same for the whole episode."""
        ...

    def fork(self) -> Toolbox:
        """A toolbox in the same state, independent from now on."""
        ...

    def close(self) -> None:
        """Gives back what the tools hold, such as processes. May be called again, and on a toolbox never used."""
        ...


@dataclass(frozen=True, slots=True)
class SharedTools:
    """Tools without state: every episode and every fork uses the same ones."""

    tools: tuple[Tool, ...]

    def fork(self) -> SharedTools:
        """Itself: there is no state to part with."""
        return self

    def close(self) -> None:
        """Nothing is held."""


class Task(Protocol[ItemT]):
    """One kind of task over a set of items. Immutable after loading, shared between environments."""

    @property
    def system_prompt(self) -> str:
        """What the system message says; "" for none."""
        ...

    def __len__(self) -> int:
        """How many items there are, >= 1."""
        ...

    def item(self, index: int) -> ItemT:
        """The item of that index, 0 <= index < len."""
        ...

    def task_ids(self) -> Sequence[str]:
        """The items' ids, in order."""
        ...

    def index_of(self, task_id: str) -> int:
        """The index of the item with that id.

        Raises:
            ConfigError: there is none.
        """
        ...

    def user_prompt(self, item: ItemT) -> str:
        """What the policy is asked. Holds nothing of the gold answer."""
        ...

    def begin(self, item: ItemT) -> Toolbox:
        """The tools of a new episode on this item. They never hold the gold answer."""
        ...

    def decide(self, item: ItemT, turns: Sequence[Turn], parsed: ParsedTurn) -> Decision:
        """What becomes of a turn that has just been read; ``turns`` are those before it."""
        ...

    def answer_request(self) -> str:
        """What the environment says before the last turn; "" for nothing."""
        ...

    def no_action_hint(self) -> str:
        """What the environment says after a turn with neither a call nor an answer."""
        ...

    def reward(self, outcome: Outcome[ItemT]) -> float:
        """The reward of the last turn."""
        ...

    def metrics(self, outcome: Outcome[ItemT]) -> dict[str, float]:
        """Scores of a finished episode, by name; ``em`` is 1 where the task was solved, else 0."""
        ...

    def oracle(self, item: ItemT) -> Sequence[OracleTurn]:
        """The turns of a policy that knows the answer; a driver repeats the last one if the episode goes on."""
        ...
