"""Whitening: mean 0 and variance 1 over the tokens that count, of the whole update and all processes."""

from __future__ import annotations

import torch
from torch import Tensor

from agent_trainer.estimators.groups import SPREAD


def whiten(values: Tensor, mask: Tensor) -> Tensor:
    """(x - mean) / std over the masked entries, the deviation over n - 1; other entries become zero.

    Fewer than two entries stay as they are: there is nothing to compare them with. Entries that are all the same become
    zero.

    Args:
        values: float64, of any shape; call it with the rows of every process, or the scale differs between them.
        mask: bool, of the same shape.
    """
    chosen = values[mask]
    whitened = torch.zeros_like(values)
    if len(chosen) < 2:
        whitened[mask] = chosen
    elif bool(chosen.max() - chosen.min() > SPREAD):
        whitened[mask] = (chosen - chosen.mean()) / chosen.std()
    return whitened
