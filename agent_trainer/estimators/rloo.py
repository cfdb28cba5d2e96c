"""RLOO: an episode's return against the mean of the others in its group, the same for each of its tokens.

A_i = R_i - mean(R_j, j != i) = G / (G - 1) (R_i - mean(R_1..R_G)). The baseline does not depend on the episode itself,
so the gradient is unbiased. Source: arXiv 2402.14740.

Deviation: a group of one has no others, and gives zero.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch

from agent_trainer.estimators.base import AdvantageInputs, Advantages
from agent_trainer.estimators.groups import on_every_token, relative_to_group
from agent_trainer.estimators.sequences import make_sequences, to_advantages


@dataclass(frozen=True, slots=True)
class LeaveOneOut:
    """The estimator; it has no options."""

    needs: ClassVar[frozenset[str]] = frozenset()

    def __call__(self, inputs: AdvantageInputs) -> Advantages:
        """Advantages ``[B, T]``; a group of fewer than two valid episodes, or without spread, gives zero."""
        sequences = make_sequences(inputs)
        returns = sequences.take(inputs.rewards).sum(dim=1)
        members = torch.bincount(sequences.groups)[sequences.groups].double()
        scores = relative_to_group(returns, sequences.groups, divide_by_std=False)
        return to_advantages(
            inputs, sequences, on_every_token(sequences, scores * members / (members - 1).clamp(min=1))
        )
