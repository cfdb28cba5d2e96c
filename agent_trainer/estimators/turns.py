"""Turns as the unit: their rewards-to-go, and comparisons among them."""

from __future__ import annotations

import torch
from torch import Tensor

from agent_trainer.estimators.groups import relative_to_group
from agent_trainer.estimators.recursion import discounted_sums
from agent_trainer.estimators.sequences import Sequences


def turn_returns(sequences: Sequences, rewards: Tensor, gamma: float) -> Tensor:
    """float64 ``[E, K]``: at the first token of each turn, the turn's reward-to-go (tokens are not discounted)."""
    taken = sequences.take(rewards)
    return discounted_sums(taken, taken.new_ones(taken.shape).masked_fill(sequences.ends_turn(), gamma))


def relative_turns(sequences: Sequences, scores: Tensor, labels: Tensor, *, divide_by_std: bool) -> Tensor:
    """float64 ``[E, K]``: each turn's score against the turns of its group with the same label, on all its tokens.

    Args:
        sequences: the episodes.
        scores: float64 ``[E, K]``, read at the first token of each turn.
        labels: int64 ``[E, K]``, read there too.
        divide_by_std: divide by the standard deviation of the turns compared.
    """
    first = sequences.starts_turn()
    pairs = torch.stack([sequences.groups[:, None].expand_as(labels)[first], labels[first]], dim=1)
    _, compared = torch.unique(pairs, dim=0, return_inverse=True)
    advantages = torch.zeros_like(scores)
    advantages[first] = relative_to_group(scores[first], compared, divide_by_std=divide_by_std)
    return sequences.per_turn(advantages).where(sequences.present, 0.0)
