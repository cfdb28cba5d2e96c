"""What every estimator of advantages takes and gives: plain tensors, so that each is one small pure function."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from torch import Tensor


@dataclass(frozen=True, slots=True)
class AdvantageInputs:
    """The rows of a whole update, of all processes together; B rows of T completion tokens.

    The rows of one episode are its segments, in their order; rows of other episodes may lie between them.

    Attributes:
        rewards: float ``[B, T]``, non-zero only on action tokens (``agent_trainer.batch.place_rewards``).
        action_mask: bool ``[B, T]``, True where the policy sampled the token.
        loss_mask: bool ``[B, T]``, True where the loss looks; the action mask, except in an ablation.
        turn_ids: int64 ``[B, T]``, the turn of each token; -1 on padding.
        episode_ids: int64 ``[B]``; the rows of one episode share a number and count once in their group.
        group_ids: int64 ``[B]``; episodes of one task and environment seed share a number.
        valid: bool ``[B]``; False leaves the row's episode out of baselines and losses.
        values: float ``[B, T]``, the critic's value just before each token; read at action tokens only.
        terminated: bool ``[B]``, True where the row's episode came to the task's own end, not to a budget's.
        last_values: float ``[B]``, the critic's value behind the row's last token, the final observation included;
            read in the last row of an episode that was not terminated.
        baselines: float ``[B]``, the return of a greedy episode of the row's task and environment seed; NaN where
            that one failed.
        anchor_ids: int64 ``[B, T]``, on every token of a turn the number of the state that the turn began in;
            compared within a group only.
    """

    rewards: Tensor
    action_mask: Tensor
    loss_mask: Tensor
    turn_ids: Tensor
    episode_ids: Tensor
    group_ids: Tensor
    valid: Tensor
    values: Tensor | None = None
    terminated: Tensor | None = None
    last_values: Tensor | None = None
    baselines: Tensor | None = None
    anchor_ids: Tensor | None = None


@dataclass(frozen=True, slots=True)
class Advantages:
    """What an estimator found.

    Attributes:
        values: float32 ``[B, T]``, zero outside the loss mask.
        has_signal: bool ``[B]``, False for rows that cannot teach anything and need not be computed.
        num_groups: groups with at least one valid episode.
        groups_without_spread: those of them that teach nothing, since their members all earned the same, or are fewer
            than two.
        value_targets: float32 ``[B, T]``, what the critic should have said (before whitening); None without a critic.
        value_mask: bool ``[B, T]``, True where there is such a target; None without a critic.
    """

    values: Tensor
    has_signal: Tensor
    num_groups: int
    groups_without_spread: int
    value_targets: Tensor | None = None
    value_mask: Tensor | None = None


class Estimator(Protocol):
    """A frozen dataclass whose fields are its options."""

    @property
    def needs(self) -> frozenset[str]:
        """The optional fields of ``AdvantageInputs`` that it reads."""
        ...

    def __call__(self, inputs: AdvantageInputs) -> Advantages:
        """Advantages of the rows.

        Raises:
            ValueError: an input that it needs is None, or a reward lies off the action tokens.
        """
        ...


def given(inputs: AdvantageInputs, name: str) -> Tensor:
    """An optional input.

    Raises:
        ValueError: it is None.
    """
    tensor: Tensor | None = getattr(inputs, name)
    if tensor is None:
        raise ValueError(f"this estimator needs AdvantageInputs.{name}, which is None")
    return tensor


def check_fraction(name: str, value: float) -> None:
    """A discount or a lambda.

    Raises:
        ValueError: it lies outside [0, 1].
    """
    if not 0.0 <= value <= 1.0:
        raise ValueError(f"{name} must lie in [0, 1], got {value}")
