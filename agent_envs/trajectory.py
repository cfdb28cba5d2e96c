"""The tokens of an episode in the making, cut into segments."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from agent_envs.buffer import TokenBuffer
from agent_envs.types import Int32Array, Segment

ARRAYS = ("tokens", "action_mask", "turn_ids", "rewards", "logprobs")


@dataclass(frozen=True, slots=True)
class _Closed:
    """A segment that nothing will be added to; its arrays are cut to its length and never written again."""

    buffer: TokenBuffer
    prompt_length: int


class Trajectory:
    """Closed segments, and the one being written.

    Attributes:
        buffer: of the segment being written: what the policy sees.
        prompt_length: of that segment.
        offset: tokens in the segments before it.
        turns_in_context: turns whose tokens stand whole in it, from the first one to the last without a gap.
    """

    def __init__(self, capacity: int, prompt: Sequence[int]) -> None:
        """A first segment of that capacity, in tokens, that holds its prompt."""
        self._capacity = capacity
        self._closed: tuple[_Closed, ...] = ()
        self._turns: list[Int32Array] = []
        self.offset = 0
        self.turns_in_context = 0
        self._start_segment(prompt)

    @property
    def index(self) -> int:
        """The number of the segment being written, from 0."""
        return len(self._closed)

    @property
    def prompt(self) -> Int32Array:
        """The first segment's prompt: what the episode began with."""
        first = self._closed[0] if self._closed else _Closed(self.buffer, self.prompt_length)
        return first.buffer.tokens[: first.prompt_length]

    def last_turns(self, count: int) -> list[Int32Array]:
        """The last turns that were kept with ``keep_turn``, each with the reply to it, oldest first."""
        return self._turns[len(self._turns) - count :]

    def keep_turn(self, ids: Int32Array) -> None:
        """Keeps a turn's tokens with its reply's, for contexts that begin with them."""
        self._turns.append(ids)

    def open_segment(self, prompt: Sequence[int], turns_in_context: int) -> None:
        """Closes the present segment and opens one with that prompt, in which so many turns stand whole.

        Raises:
            IndexError: the prompt does not fit.
        """
        self.offset += self.buffer.length
        self._closed = (*self._closed, _Closed(self.buffer.trimmed(), self.prompt_length))
        self.turns_in_context = turns_in_context
        self._start_segment(prompt)

    def joined(self, name: str) -> NDArray[Any]:
        """One of ``ARRAYS`` over all segments, as a new read-only array ``[T]``."""
        parts = [getattr(closed.buffer, name) for closed in self._closed]
        array: NDArray[Any] = np.concatenate([*parts, getattr(self.buffer, name)[: self.buffer.length]])
        array.flags.writeable = False
        return array

    def segments(self) -> tuple[Segment, ...]:
        """Where the segments lie."""
        segments, start = [], 0
        for length, prompt in [
            *((closed.buffer.length, closed.prompt_length) for closed in self._closed),
            (self.buffer.length, self.prompt_length),
        ]:
            segments.append(Segment(start, start + length, prompt))
            start += length
        return tuple(segments)

    def set_reward(self, position: int, reward: float) -> None:
        """Puts a reward on a token; ``position`` counts from the episode's first token.

        It may lie in the segment closed last, where the turn that it judges was written.
        """
        if position >= self.offset:
            self.buffer.rewards[position - self.offset] = reward
        else:
            self._closed[-1].buffer.rewards[position - self.offset] = reward

    def copy(self) -> Trajectory:
        """An independent copy; closed segments, which never change, are shared."""
        twin = Trajectory.__new__(Trajectory)
        twin.__dict__.update(self.__dict__)
        twin.buffer = self.buffer.copy()
        twin._turns = list(self._turns)
        return twin

    def _start_segment(self, prompt: Sequence[int]) -> None:
        self.buffer = TokenBuffer(self._capacity)
        self.buffer.append_environment(prompt, turn=-1)
        self.prompt_length = len(prompt)
