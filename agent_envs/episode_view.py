"""What an episode shows to those who drive, record and render it: its state, read-only."""

from __future__ import annotations

from typing import Generic, TypeVar

from agent_envs.budgets import Budgets
from agent_envs.chat import ChatRenderer
from agent_envs.episode_kit import EpisodeKit, FinishedTurn
from agent_envs.errors import EpisodeOverError
from agent_envs.formats.base import ToolFormat
from agent_envs.tasks.base import Task
from agent_envs.tokenizers import Tokenizer
from agent_envs.tools.base import Tool
from agent_envs.tools.executor import ToolExecutor
from agent_envs.trajectory import Trajectory
from agent_envs.turn_ends import TurnEnds
from agent_envs.types import Episode, Event, Int32Array, Message, StopReason, ToolCall, Turn

ItemT = TypeVar("ItemT")


class EpisodeView(Generic[ItemT]):
    """The state of an episode, and what of it may be seen. ``EpisodeCore`` changes it."""

    renderer: ChatRenderer
    turn_ends: TurnEnds
    _kit: EpisodeKit

    def __init__(
        self, env_id: str, task: Task[ItemT], tokenizer: Tokenizer, tool_format: ToolFormat, budgets: Budgets
    ) -> None:
        self.env_id, self.task = env_id, task
        self.tokenizer, self.format = tokenizer, tool_format
        self.budgets = budgets
        self._item: ItemT | None = None
        self._seed: int | None = None
        self._reason: StopReason | None = None
        self._pending: FinishedTurn | None = None
        self._turns: list[Turn] = []
        self._events: list[Event] = []
        self._messages: tuple[Message, ...] = ()
        self._metrics: dict[str, float] = {}
        self._index = -1
        self._turn_start = self._news_start = 0  # within the present segment
        self._reward = 0.0
        self._running = False
        self._trajectory = Trajectory(0, ())
        self._buffer = self._trajectory.buffer

    @property
    def done(self) -> bool:
        """The episode is over or hasn't begun."""
        return not self._running

    @property
    def reason(self) -> StopReason | None:
        """Why the episode ended, or None."""
        return self._reason

    @property
    def context(self) -> Int32Array:
        """int32 ``[T]``: what the policy sees now. A read-only view of the episode's own memory."""
        view = self._buffer.tokens[: self._buffer.length]
        view.flags.writeable = False
        return view

    @property
    def padded_context(self) -> Int32Array:
        """int32 ``[max_context]``: a fresh copy of the context, zeros behind it."""
        return self._buffer.tokens.copy()

    @property
    def length(self) -> int:
        """The number of tokens in the context."""
        return self._buffer.length

    @property
    def max_new_tokens(self) -> int:
        """How many more tokens this turn may take."""
        used = self._buffer.length - self._turn_start
        return min(self.budgets.max_turn_tokens - used, self._buffer.room)

    @property
    def pending(self) -> tuple[ToolCall, ...] | None:
        """The checked calls of a turn that has ended and waits for ``resolve``; empty for a turn without any."""
        return None if self._pending is None else self._pending.calls

    @property
    def turns(self) -> tuple[Turn, ...]:
        """Those that have ended."""
        return tuple(self._turns)

    @property
    def events(self) -> tuple[Event, ...]:
        """What the environment noticed so far."""
        return tuple(self._events)

    @property
    def tools(self) -> tuple[Tool, ...]:
        """The tools of the present episode (of the first item's before the first reset)."""
        return self._kit.toolbox.tools

    @property
    def executor(self) -> ToolExecutor:
        """Runs calls of these tools; for drivers that run the tools of many episodes together."""
        return self._kit.executor

    @property
    def segment_index(self) -> int:
        """The number of the segment being written; when it rises, the context was written anew."""
        return self._trajectory.index

    @property
    def news(self) -> Int32Array:
        """int32: what the policy has not seen before its next turn; the whole context after a reset or a rewriting."""
        return self.context[self._news_start :]

    @property
    def messages(self) -> tuple[Message, ...]:
        """What the environment said last, as contents without glue (uncut); the prompt's messages after a reset."""
        return self._messages

    @property
    def metrics(self) -> dict[str, float]:
        """The task's scores, empty while the episode runs."""
        return dict(self._metrics)

    @property
    def item(self) -> ItemT:
        """The item being played.

        Raises:
            EpisodeOverError: no episode has begun.
        """
        if self._item is None:
            raise EpisodeOverError("no episode has begun: call reset() first")
        return self._item

    def snapshot(self) -> Episode:
        """The record so far, frozen and independent of what comes.

        Raises:
            EpisodeOverError: no episode has begun.
        """
        if self._item is None:
            raise EpisodeOverError("no episode has begun: call reset() first")
        reason, trajectory = self._reason, self._trajectory
        return Episode(
            env_id=self.env_id,
            task_id=self.task.task_ids()[self._index],
            seed=self._seed,
            tokens=trajectory.joined("tokens"),
            action_mask=trajectory.joined("action_mask"),
            turn_ids=trajectory.joined("turn_ids"),
            rewards=trajectory.joined("rewards"),
            sampler_logprobs=trajectory.joined("logprobs"),
            turns=tuple(self._turns),
            segments=trajectory.segments(),
            events=tuple(self._events),
            terminated=reason is not None and reason.terminated,
            truncated=reason is not None and not reason.terminated,
            reason=reason,
            metrics=dict(self._metrics),
        )
