"""Observations side by side: arrays in one block of memory, everything else as a tuple."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces
from gymnasium.vector.utils import batch_space

from agent_envs.spaces import TokenRun, UnicodeText


def batched(space: spaces.Space[Any], num_envs: int) -> spaces.Space[Any]:
    """The space of ``num_envs`` elements side by side; a tuple where they are no arrays of one shape."""
    if isinstance(space, TokenRun | UnicodeText):
        return spaces.Tuple([space] * num_envs)
    return batch_space(space, num_envs)


class Batcher:
    """Keeps the last observation of each environment."""

    def __init__(self, space: spaces.Space[Any], num_envs: int) -> None:
        """Begins with zeros, or with nothing."""
        self._tokens: np.ndarray[Any, np.dtype[np.int32]] | None = None
        if isinstance(space, spaces.Dict):
            (capacity,) = space["tokens"].shape or (0,)
            self._tokens = np.zeros((num_envs, capacity), np.int32)
            self._lengths = np.zeros(num_envs, np.int64)
        self._others: list[Any] = [None] * num_envs

    @property
    def grows(self) -> bool:
        """True where an observation is all tokens so far, so that one more token is one more entry."""
        return self._tokens is not None

    def grow(self, index: int, token_id: int) -> None:
        """Adds a token to an environment's observation."""
        if self._tokens is not None:
            self._tokens[index, self._lengths[index]] = token_id
            self._lengths[index] += 1

    def put(self, index: int, observation: Any) -> None:
        """Takes an environment's observation; without one, the last stays."""
        if observation is None:
            return
        if self._tokens is None:
            self._others[index] = observation
        else:
            self._tokens[index] = observation["tokens"]
            self._lengths[index] = observation["length"]

    def take(self) -> Any:
        """All observations, as a copy that nobody writes to."""
        if self._tokens is None:
            return tuple(self._others)
        return {"tokens": self._tokens.copy(), "length": self._lengths.copy()}
