"""Spaces that Gymnasium lacks: any text, a policy's turn, and a run of tokens of any length.

``gymnasium.spaces.Text`` refuses a space or an accented letter unless each character is listed, which costs seconds
and hundreds of megabytes for all of Unicode.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from agent_envs.buffer import as_ids
from agent_envs.errors import InvalidActionError

_SAMPLE_LENGTH = 64


class UnicodeText(spaces.Text):
    """Any string of at most ``max_length`` characters; samples are short and ASCII."""

    def contains(self, x: Any) -> bool:
        """True for a string that is not too long."""
        return isinstance(x, str) and len(x) <= self.max_length

    def sample(self, mask: Any = None, probability: Any = None) -> str:
        """A short string of ASCII letters, digits and spaces; masks are not supported."""
        letters = np.array(list("abcdefghijklmnopqrstuvwxyz0123456789 "))
        length = int(self.np_random.integers(1, min(_SAMPLE_LENGTH, self.max_length) + 1))
        return "".join(self.np_random.choice(letters, size=length))


class TurnText(UnicodeText):
    """A whole turn of a policy: its text, or the token ids as sampled (a sequence of whole numbers >= 0)."""

    def contains(self, x: Any) -> bool:
        """True for a string, or for a non-empty sequence of ids that a record can hold."""
        if isinstance(x, str):
            return super().contains(x)
        if not isinstance(x, list | tuple | np.ndarray):
            return False
        try:
            as_ids(x)
        except InvalidActionError:
            return False
        return True


class TokenRun(spaces.Space[NDArray[np.int32]]):
    """An int32 vector of at most ``max_length`` token ids below ``vocab_size``."""

    def __init__(self, vocab_size: int, max_length: int, seed: int | np.random.Generator | None = None) -> None:
        """``vocab_size`` and ``max_length`` are at least 1."""
        self.vocab_size = vocab_size
        self.max_length = max_length
        super().__init__(None, np.int32, seed)

    def contains(self, x: Any) -> bool:
        """True for a vector of int32 ids that is not too long."""
        if not isinstance(x, np.ndarray) or x.dtype != np.int32 or x.ndim != 1 or len(x) > self.max_length:
            return False
        return len(x) == 0 or (int(x.min()) >= 0 and int(x.max()) < self.vocab_size)

    def sample(self, mask: Any = None, probability: Any = None) -> NDArray[np.int32]:
        """A short run; masks are not supported."""
        length = int(self.np_random.integers(1, min(_SAMPLE_LENGTH, self.max_length) + 1))
        return self.np_random.integers(0, self.vocab_size, size=length, dtype=np.int32)

    @property
    def is_np_flattenable(self) -> bool:
        """False: its length varies."""
        return False

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TokenRun):
            return False
        return (self.vocab_size, self.max_length) == (other.vocab_size, other.max_length)

    def __hash__(self) -> int:
        return hash((self.vocab_size, self.max_length))

    def __repr__(self) -> str:
        return f"TokenRun(vocab_size={self.vocab_size}, max_length={self.max_length})"
