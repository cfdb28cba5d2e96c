"""What a task is: items, a prompt, tools, and a judgement of what was done."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

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
    """A turn of a policy that knows the item: calls, or the final answer."""

    calls: tuple[ToolCall, ...] = ()
    answer: str | None = None


class Task(Protocol[ItemT]):
    """One kind of task over a set of items. Immutable after loading, shared between environments."""

    @property
    def system_prompt(self) -> str:
        """What the system message says; "" for none."""
        ...

    @property
    def tools(self) -> tuple[Tool, ...]:
        """The tools that the policy can call."""
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

    def answer_request(self) -> str:
        """What the environment says before the last turn."""
        ...

    def no_action_hint(self) -> str:
        """What the environment says after a turn with neither a call nor an answer."""
        ...

    def reward(self, outcome: Outcome[ItemT]) -> float:
        """The reward of the last turn."""
        ...

    def metrics(self, outcome: Outcome[ItemT]) -> dict[str, float]:
        """Scores of a finished episode, by name."""
        ...

    def oracle(self, item: ItemT) -> Sequence[OracleTurn]:
        """The turns of a policy that knows the answer."""
        ...
