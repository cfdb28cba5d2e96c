"""The tokens of an episode in the making, with the arrays that run along them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from agent_envs.errors import InvalidActionError
from agent_envs.types import BoolArray, Float32Array, Int32Array

MAX_ID = int(np.iinfo(np.int32).max)  # the highest id that a record holds


class TokenBuffer:
    """Append-only parallel arrays of a fixed capacity; the part beyond ``length`` is zero.

    The arrays are allocated as zero pages, which cost no memory before they are written.
    """

    def __init__(self, capacity: int) -> None:
        """An empty buffer for at most ``capacity`` tokens."""
        self.capacity = capacity
        self.length = 0
        self.tokens: Int32Array = np.zeros(capacity, np.int32)
        self.action_mask: BoolArray = np.zeros(capacity, np.bool_)
        self.turn_ids: Int32Array = np.zeros(capacity, np.int32)
        self.rewards: Float32Array = np.zeros(capacity, np.float32)
        self.logprobs: Float32Array = np.zeros(capacity, np.float32)

    @property
    def room(self) -> int:
        """How many more tokens fit."""
        return self.capacity - self.length

    def append_environment(self, ids: Sequence[int], turn: int) -> None:
        """Appends tokens that the environment wrote.

        Raises:
            IndexError: they don't fit.
        """
        end = self._reserve(len(ids))
        self.tokens[self.length : end] = ids
        self.turn_ids[self.length : end] = turn
        self.length = end

    def append_action(self, token_id: int, turn: int, logprob: float) -> None:
        """Appends one sampled token; ``logprob`` is NaN where it isn't known."""
        at = self.length
        self._reserve(1)
        self.tokens[at] = token_id
        self.action_mask[at] = True
        self.turn_ids[at] = turn
        self.logprobs[at] = logprob
        self.length = at + 1

    def append_actions(self, ids: NDArray[np.integer], turn: int, logprobs: NDArray[np.floating] | None) -> None:
        """Appends sampled tokens; without ``logprobs`` they are NaN."""
        end = self._reserve(len(ids))
        self.tokens[self.length : end] = ids
        self.action_mask[self.length : end] = True
        self.turn_ids[self.length : end] = turn
        self.logprobs[self.length : end] = np.nan if logprobs is None else logprobs
        self.length = end

    def copy(self) -> TokenBuffer:
        """An independent copy, in time proportional to ``length``."""
        twin = TokenBuffer(self.capacity)
        twin.length = self.length
        for name in ("tokens", "action_mask", "turn_ids", "rewards", "logprobs"):
            getattr(twin, name)[: self.length] = getattr(self, name)[: self.length]
        return twin

    def trimmed(self) -> TokenBuffer:
        """A copy that has room for nothing more."""
        twin = TokenBuffer(self.length)
        twin.length = self.length
        for name in ("tokens", "action_mask", "turn_ids", "rewards", "logprobs"):
            getattr(twin, name)[:] = getattr(self, name)[: self.length]
        return twin

    def _reserve(self, count: int) -> int:
        if count > self.room:
            raise IndexError(f"{count} tokens do not fit into the {self.room} that are left")
        return self.length + count


def as_ids(ids: Sequence[int] | NDArray[np.integer]) -> NDArray[np.int64]:
    """Sampled ids as an int64 vector.

    Raises:
        InvalidActionError: there is none, or one is no whole number from 0 to ``MAX_ID``.
    """
    try:
        array = np.asarray(ids)
    except ValueError:  # lists of different lengths
        array = np.empty(0)
    whole = array.ndim == 1 and array.size > 0 and np.issubdtype(array.dtype, np.integer)
    if not whole or int(array.min()) < 0 or int(array.max()) > MAX_ID:
        text = repr(ids)
        shown = text if len(text) <= 80 else f"{text[:77]}..."
        raise InvalidActionError(f"expected a sequence of at least one token id, 0 <= id <= {MAX_ID}, got {shown}")
    return array.astype(np.int64, copy=False)
