"""Lays the environment's reply to a turn out as tokens: behind the turn, or in a context that is written anew."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from agent_envs.budgets import Budgets
from agent_envs.chat import ChatRenderer, Feedback
from agent_envs.context_rules import ContextRecord, ContextRule
from agent_envs.trajectory import Trajectory
from agent_envs.types import Int32Array, Message, Turn

_MIN_OBSERVATION = 16  # tokens: an observation cut shorter than this tells nothing, so the context counts as full


@dataclass(frozen=True, slots=True)
class EndedTurn:
    """A turn that waits for its reply.

    Attributes:
        index: its number.
        ids: int32, the policy's tokens.
        goes_on: a closing tag ended it, so that a format may let the same message go on.
    """

    index: int
    ids: Int32Array
    goes_on: bool


@dataclass(frozen=True, slots=True)
class Reply:
    """What became of a reply.

    Attributes:
        written: False where it has no room.
        was_cut: contents were shortened.
        opening: what it has already written of the policy's next turn.
    """

    written: bool
    was_cut: bool = False
    opening: str = ""


@dataclass(frozen=True, slots=True)
class _Context:
    """A context that might be: what stands before the reply, the reply, and the turns that stand whole in it."""

    head: Int32Array
    feedback: Feedback
    turns: int
    was_squeezed: bool  # the reply was cut shorter than its own budget for want of room

    @property
    def length(self) -> int:
        return len(self.head) + len(self.feedback.ids)


class ReplyWriter:
    """Writes replies for one kind of episode. Keeps nothing of any episode."""

    def __init__(self, renderer: ChatRenderer, budgets: Budgets, rule: ContextRule, system_prompt: str) -> None:
        """Takes what all episodes share; ``system_prompt`` is for contexts that are written anew."""
        self._renderer = renderer
        self._budgets = budgets
        self._rule = rule
        self._system_prompt = system_prompt

    def write(
        self, trajectory: Trajectory, turn: EndedTurn, messages: Sequence[Message], record: Callable[[], ContextRecord]
    ) -> Reply:
        """Adds the reply to the trajectory, in a new segment where the context rule asks for one.

        Args:
            trajectory: ends with the turn.
            turn: the turn replied to.
            messages: tool results first, then at most one user message.
            record: gives the episode's record up to and with this turn.
        """
        buffer = trajectory.buffer
        grown = self._try(buffer.tokens[: buffer.length], turn, messages, trajectory.turns_in_context + 1)
        if self._wants_rewriting(trajectory, grown):
            rewritten = self._rewrite(trajectory, turn, messages, record)
            if rewritten is not None:
                self._keep(trajectory, turn, rewritten)
                trajectory.open_segment(_prompt_of(rewritten), rewritten.turns)
                return Reply(True, rewritten.feedback.was_cut, rewritten.feedback.opening)
        if grown is None:
            return Reply(False)
        self._keep(trajectory, turn, grown)
        buffer.append_environment(grown.feedback.ids, turn.index)
        trajectory.turns_in_context += 1
        return Reply(True, grown.feedback.was_cut, grown.feedback.opening)

    def _wants_rewriting(self, trajectory: Trajectory, grown: _Context | None) -> bool:
        if not self._rule.rewrites:
            return False
        if grown is None or grown.was_squeezed:
            return True
        if self._rule.trigger_tokens:
            return grown.length > self._rule.trigger_tokens
        return self._rule.name == "rebuild" or trajectory.turns_in_context + 1 > self._rule.keep_turns

    def _rewrite(
        self, trajectory: Trajectory, turn: EndedTurn, messages: Sequence[Message], record: Callable[[], ContextRecord]
    ) -> _Context | None:
        """The context as the rule has it, or None where that doesn't fit or would change nothing."""
        if self._rule.name == "rebuild":
            return self._rebuilt(record())
        limit = self._rule.trigger_tokens or self._budgets.max_context
        found: _Context | None = None
        for head, turns in self._heads(trajectory, turn, record):
            context = self._try(head, turn, messages, turns)
            if context is not None:
                found = context
                if context.length <= limit and not context.was_squeezed:
                    break
        return found

    def _heads(
        self, trajectory: Trajectory, turn: EndedTurn, record: Callable[[], ContextRecord]
    ) -> Iterator[tuple[Int32Array, int]]:
        """What may stand before the reply, with fewer and fewer turns; only what is shorter than the present one."""
        there = trajectory.turns_in_context + 1
        for keep in range(min(self._rule.keep_turns, there - 1), 0, -1):
            start = trajectory.prompt if self._rule.name == "window" else self._summarised(record(), keep)
            yield np.concatenate([start, *trajectory.last_turns(keep - 1), turn.ids]), keep

    def _summarised(self, record: ContextRecord, keep: int) -> Int32Array:
        dropped: tuple[Turn, ...] = record.turns[: len(record.turns) - keep]
        summary = self._write(ContextRecord(record.question, dropped, record.hint))
        ids = self._renderer.prompt(
            self._system_prompt, f"{record.question}\n\n{summary}" if summary else record.question
        )
        return np.asarray(ids, np.int32)

    def _rebuilt(self, record: ContextRecord) -> _Context | None:
        ids = np.asarray(self._renderer.prompt(self._system_prompt, self._write(record)), np.int32)
        if len(ids) >= self._budgets.max_context:
            return None
        feedback = Feedback([], was_cut=False, was_squeezed=False, opening=self._renderer.turn_opening)
        return _Context(ids, feedback, turns=0, was_squeezed=False)

    def _write(self, record: ContextRecord) -> str:
        assert self._rule.function is not None, "summary and rebuild are made with a function"
        return self._rule.function(record)

    def _try(self, head: Int32Array, turn: EndedTurn, messages: Sequence[Message], turns: int) -> _Context | None:
        """The reply behind that head, or None where it has no room."""
        last = int(turn.ids[-1])
        room = self._budgets.max_context - len(head)
        # One token is kept free: a reply that fills the context would leave the policy nothing to say.
        content_room = room - self._renderer.frame_length(messages, last, turn.goes_on) - 1
        allowed = min(self._budgets.max_observation_tokens, content_room)
        feedback = self._renderer.feedback(messages, last, allowed, turn.goes_on)
        squeezed = feedback.was_squeezed and content_room < self._budgets.max_observation_tokens
        if len(feedback.ids) >= room or (squeezed and content_room < _MIN_OBSERVATION):
            return None
        return _Context(head, feedback, turns, squeezed)

    def _keep(self, trajectory: Trajectory, turn: EndedTurn, context: _Context) -> None:
        if self._rule.rewrites:
            trajectory.keep_turn(np.concatenate([turn.ids, np.asarray(context.feedback.ids, np.int32)]))


def _prompt_of(context: _Context) -> list[int]:
    return [*context.head.tolist(), *context.feedback.ids]
