"""Soft punishment of overlong episodes, a part of DAPO: a penalty that grows with the length, from 0 to -1.

Source: arXiv 2503.14476, eq. 13. Deviation: only the policy's own tokens count as an episode's length.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from agent_trainer.estimators.base import AdvantageInputs, Advantages, Estimator
from agent_trainer.estimators.sequences import make_sequences


@dataclass(frozen=True, slots=True)
class OverlongPenalised:
    """Another estimator, on rewards that have the penalty added at each episode's last action token.

    Attributes:
        inner: the estimator.
        max_tokens: of the policy's own in an episode, from which the whole penalty is due.
        buffer_tokens: over how many tokens before that the penalty grows, in [1, max_tokens].
    """

    inner: Estimator
    max_tokens: int
    buffer_tokens: int

    def __post_init__(self) -> None:
        """Checks the range.

        Raises:
            ValueError: the buffer lies outside [1, max_tokens].
        """
        if not 1 <= self.buffer_tokens <= self.max_tokens:
            raise ValueError(f"the buffer must have 1 to {self.max_tokens} tokens, got {self.buffer_tokens}")

    @property
    def needs(self) -> frozenset[str]:
        """What the inner estimator needs."""
        return self.inner.needs

    def __call__(self, inputs: AdvantageInputs) -> Advantages:
        """Advantages of the shaped rewards."""
        sequences = make_sequences(inputs)
        lengths = sequences.present.sum(dim=1)
        penalty = overlong_penalty(lengths, self.max_tokens, self.buffer_tokens)
        places = torch.arange(sequences.present.shape[1], device=lengths.device)
        placed = penalty[:, None].where(places == lengths[:, None] - 1, 0.0)
        return self.inner(replace(inputs, rewards=inputs.rewards + sequences.put(placed)))


def overlong_penalty(lengths: Tensor, max_tokens: int, buffer_tokens: int) -> Tensor:
    """float64, shaped as ``lengths``: 0 up to the buffer, -1 from ``max_tokens`` on, a straight line between.

    Args:
        lengths: int64, tokens that the policy sampled in each episode.
        max_tokens: the length from which the whole penalty is due.
        buffer_tokens: over how many tokens before that the penalty grows, >= 1.
    """
    return -torch.clamp((lengths.double() - (max_tokens - buffer_tokens)) / buffer_tokens, 0.0, 1.0)
