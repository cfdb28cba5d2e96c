"""What every estimator of advantages takes and gives: plain tensors, so that each is one small pure function."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True, slots=True)
class AdvantageInputs:
    """The rows of a whole update, of all processes together; B rows of T completion tokens.

    Attributes:
        rewards: float ``[B, T]``, non-zero only on action tokens.
        action_mask: bool ``[B, T]``, True where the policy sampled the token.
        loss_mask: bool ``[B, T]``, True where the loss looks; the action mask, except in an ablation.
        turn_ids: int64 ``[B, T]``, the turn of each token; -1 on padding.
        episode_ids: int64 ``[B]``; the rows of one episode share a number and count once in their group.
        group_ids: int64 ``[B]``; episodes of one task and environment seed share a number.
        valid: bool ``[B]``; False leaves the row's episode out of baselines and losses.
    """

    rewards: Tensor
    action_mask: Tensor
    loss_mask: Tensor
    turn_ids: Tensor
    episode_ids: Tensor
    group_ids: Tensor
    valid: Tensor


@dataclass(frozen=True, slots=True)
class Advantages:
    """What an estimator found.

    Attributes:
        values: float32 ``[B, T]``, zero outside the loss mask.
        has_signal: bool ``[B]``, False for rows that cannot teach anything and need not be computed.
        num_groups: groups with at least one valid episode.
        groups_without_spread: those of them whose members all earned the same, or that have fewer than two.
    """

    values: Tensor
    has_signal: Tensor
    num_groups: int
    groups_without_spread: int


Estimator = Callable[[AdvantageInputs], Advantages]
