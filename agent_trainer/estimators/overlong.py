"""Soft punishment of overlong episodes, a part of DAPO: a penalty that grows with the length, from 0 to -1."""

from __future__ import annotations

import torch
from torch import Tensor


def overlong_penalty(lengths: Tensor, max_tokens: int, buffer_tokens: int) -> Tensor:
    """float64, shaped as ``lengths``: 0 up to the buffer, -1 from ``max_tokens`` on, a straight line between.

    Source: arXiv 2503.14476, eq. 13. Deviation: in an agent's episode only the policy's own tokens count as its length.

    Args:
        lengths: int64, tokens that the policy sampled in each episode.
        max_tokens: the length from which the whole penalty is due.
        buffer_tokens: over how many tokens before that the penalty grows, in [1, max_tokens].

    Raises:
        ValueError: the buffer lies outside [1, max_tokens].
    """
    if not 1 <= buffer_tokens <= max_tokens:
        raise ValueError(f"buffer_tokens must lie in [1, max_tokens={max_tokens}], got {buffer_tokens}")
    over = lengths.double() - (max_tokens - buffer_tokens)
    return -torch.clamp(over / buffer_tokens, 0.0, 1.0)
