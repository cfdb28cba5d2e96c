"""Weights that correct for the sampler: its log-probabilities differ a little from the learner's.

A correction says what is weighed (tokens or whole rows), a limit what happens to weights out of bounds. Where the
sampler's log-probability is unknown (NaN), the weight is 1.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from agent_envs.registry import Registry
from agent_trainer.losses.layout import mean_over_row

Limit = Callable[[Tensor, float, float], Tensor]


def truncate(weights: Tensor, low: float, high: float) -> Tensor:
    """Weights moved to the nearer bound. Source: E. Ionides, "Truncated Importance Sampling" (2008)."""
    return weights.clamp(low, high)


def drop(weights: Tensor, low: float, high: float) -> Tensor:
    """Weights of zero in place of those outside [low, high]; the denominators go on counting such tokens."""
    return weights.where((weights >= low) & (weights <= high), 0.0)


IMPORTANCE_LIMITS: Registry[Limit] = Registry("importance limit")
IMPORTANCE_LIMITS.register("truncate", truncate)
IMPORTANCE_LIMITS.register("mask", drop)

# log(pi_old / mu) [B, T], NaN where unknown, and the mask [B, T], to the logarithm of weights [B, T], NaN likewise.
ImportanceCorrection = Callable[[Tensor, Tensor], Tensor]


def token_log_weights(log_ratio: Tensor, mask: Tensor) -> Tensor:
    """log(pi_old / mu) of each token by itself."""
    return log_ratio


def sequence_log_weights(log_ratio: Tensor, mask: Tensor) -> Tensor:
    """The mean over the row's masked tokens that are known: a geometric mean, so that length adds no variance."""
    known = mask & ~log_ratio.isnan()
    mean = mean_over_row(log_ratio, known)
    return mean.where(known.any(dim=1, keepdim=True), torch.nan).expand_as(log_ratio)


def no_log_weights(log_ratio: Tensor, mask: Tensor) -> Tensor:
    """Unknown throughout, so that all weights are 1: takes the sampler's distribution for the learner's."""
    return torch.full_like(log_ratio, torch.nan)


IMPORTANCE_CORRECTIONS: Registry[ImportanceCorrection] = Registry("importance correction")
IMPORTANCE_CORRECTIONS.register("token", token_log_weights)
IMPORTANCE_CORRECTIONS.register("sequence", sequence_log_weights)
IMPORTANCE_CORRECTIONS.register("none", no_log_weights)


def importance_weights(
    log_ratio: Tensor, mask: Tensor, correction: ImportanceCorrection, limit: Limit, bounds: tuple[float, float]
) -> Tensor:
    """Weights ``[B, T]`` within bounds, without gradient.

    Args:
        log_ratio: float ``[B, T]``, log pi_old - log mu; NaN where the sampler's log-probability is unknown.
        mask: bool ``[B, T]``.
        correction: what is weighed.
        limit: what happens to weights out of bounds.
        bounds: lowest and highest weight.
    """
    log_weights = correction(log_ratio.detach(), mask)
    return limit(torch.exp(log_weights), *bounds).where(~log_weights.isnan(), 1.0)
