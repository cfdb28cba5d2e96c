"""The critic's loss."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from agent_trainer.losses.layout import masked


@dataclass(frozen=True, slots=True)
class ValueInputs:
    """What one micro-batch brings, ``[B, T]`` each.

    Attributes:
        values: of the critic at hand; carries the gradient.
        old_values: of the critic before the update.
        targets: what the values should be, in the units of the rewards.
        mask: bool, True where values are trained: action tokens, or one of them per turn.
    """

    values: Tensor
    old_values: Tensor
    targets: Tensor
    mask: Tensor


@dataclass(frozen=True, slots=True)
class ValueLossResult:
    """The loss, and sums over the masked tokens for the log.

    Attributes:
        loss: 0-d, with the gradient; zero, but attached to the graph, where the mask is empty.
        sums: detached 0-d sums by name.
    """

    loss: Tensor
    sums: dict[str, Tensor]


def value_loss(inputs: ValueInputs, clip: float | None, count: Tensor) -> ValueLossResult:
    """This micro-batch's share of the mean of max((V - G)^2, (V_clip - G)^2) / 2.

    V_clip = V_old + clip(V - V_old, -clip, clip): a value that has already moved that far towards its target gets
    no gradient. Source: arXiv 2005.12729, section 3.

    Args:
        inputs: values, targets and the mask.
        clip: > 0, in the units of the rewards; None for the plain squared error.
        count: masked tokens of the whole accumulation window, 0-d float; see ``Denominators``.
    """
    mask = inputs.mask
    values, old, targets = (masked(t, mask) for t in (inputs.values, inputs.old_values.detach(), inputs.targets))
    error = (values - targets).square()
    per_token = error
    if clip is not None:
        bounded = old + (values - old).clamp(-clip, clip)
        per_token = torch.max(error, (bounded - targets).square())
    loss = 0.5 * per_token.sum() / count.where(count > 0, 1.0)
    sums = {"value_error": error.detach().sum(), "value_clipped": (per_token > error).sum()}
    return ValueLossResult(loss, sums)
