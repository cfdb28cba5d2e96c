"""Group-relative advantages: an episode's return against those of its group, the same for each of its tokens.

A_i = R_i - mean(R_1..R_G), divided by their standard deviation or not. R is the undiscounted sum of an episode's
rewards. Source: arXiv 2402.03300, section 4.1.2 (with the standard deviation); arXiv 2503.20783, section 3.2 (without).

Deviations: (1) the standard deviation is the sample's (over G - 1), and nothing is added to it, since a group without
spread gives no signal instead of a division by almost zero; (2) episodes that the infrastructure ended are not members.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from agent_trainer.estimators.base import AdvantageInputs, Advantages

_SPREAD = 1e-6  # returns closer than this are the same number, summed in another order


@dataclass(frozen=True, slots=True)
class GroupRelative:
    """The estimator, with or without the division by the group's standard deviation."""

    divide_by_std: bool

    def __call__(self, inputs: AdvantageInputs) -> Advantages:
        """Advantages ``[B, T]``; a group of fewer than two valid episodes, or without spread, gives zero."""
        rows = torch.nonzero(inputs.valid)[:, 0]
        values = torch.zeros(inputs.rewards.shape, dtype=torch.float32, device=inputs.rewards.device)
        has_signal = torch.zeros_like(inputs.valid)
        if len(rows) == 0:
            return Advantages(values, has_signal, num_groups=0, groups_without_spread=0)
        _, episode_of = torch.unique(inputs.episode_ids[rows], return_inverse=True)
        returns, group_of = _returns_and_groups(inputs, rows, episode_of)
        scores, spread = _relative(returns, group_of, self.divide_by_std)
        values[rows] = scores[episode_of, None].float() * inputs.loss_mask[rows]
        has_signal[rows] = spread[group_of][episode_of]
        return Advantages(values, has_signal, num_groups=len(spread), groups_without_spread=int((~spread).sum()))


def _returns_and_groups(inputs: AdvantageInputs, rows: Tensor, episode_of: Tensor) -> tuple[Tensor, Tensor]:
    """float64 ``[E]`` returns and int64 ``[E]`` groups, numbered from 0, of the valid episodes."""
    num_episodes = int(episode_of.max()) + 1
    row_returns = inputs.rewards[rows].double().sum(dim=1)
    returns = row_returns.new_zeros(num_episodes).index_add(0, episode_of, row_returns)
    groups = inputs.group_ids.new_zeros(num_episodes)
    groups[episode_of] = inputs.group_ids[rows]
    return returns, torch.unique(groups, return_inverse=True)[1]


def _relative(returns: Tensor, group_of: Tensor, divide_by_std: bool) -> tuple[Tensor, Tensor]:
    """float64 ``[E]`` advantages of the episodes and bool ``[G]``, which groups have spread."""
    num_groups = int(group_of.max()) + 1
    zeros = returns.new_zeros(num_groups)
    counts = zeros.index_add(0, group_of, torch.ones_like(returns))
    mean = zeros.index_add(0, group_of, returns) / counts
    highest = zeros.scatter_reduce(0, group_of, returns, "amax", include_self=False)
    lowest = zeros.scatter_reduce(0, group_of, returns, "amin", include_self=False)
    spread = highest - lowest > _SPREAD
    scores = returns - mean[group_of]
    if divide_by_std:
        variance = zeros.index_add(0, group_of, scores.square()) / (counts - 1).clamp(min=1)
        scores = scores / variance.sqrt().where(spread, 1.0)[group_of]
    return scores.where(spread[group_of], 0.0), spread
