"""Means with the interval that their sample leaves open."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

_Z = 1.959963984540054  # the normal distribution's 97.5 % point
_RESAMPLES = 2000
_SEED = 20250101


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean and its 95 % interval, low <= mean <= high."""

    mean: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.mean:.3f} [{self.low:.3f}, {self.high:.3f}]"


def wilson(successes: int, trials: int) -> Estimate:
    """The share of successes with Wilson's score interval, which stays within [0, 1] and holds for few trials too.

    Args:
        successes: 0 <= successes <= trials.
        trials: >= 1.

    Raises:
        ValueError: numbers outside their ranges.
    """
    if not 0 <= successes <= trials or trials < 1:
        raise ValueError(f"expected 0 <= successes <= trials and trials >= 1, got {successes} of {trials}")
    share, square = successes / trials, _Z * _Z
    centre = (share + square / (2 * trials)) / (1 + square / trials)
    half = _Z / (1 + square / trials) * math.sqrt(share * (1 - share) / trials + square / (4 * trials * trials))
    return Estimate(share, max(0.0, min(share, centre - half)), min(1.0, max(share, centre + half)))


def bootstrap(values: Sequence[float], weights: Sequence[float] | None = None) -> Estimate:
    """The mean with the percentile interval of 2,000 resamples, the same ones every time.

    Args:
        values: one number per episode, at least one.
        weights: None for the plain mean; else the ratio sum(values) / sum(weights) is estimated, such as malformed
        calls
            per call, by drawing episodes with both their numbers. It is 0 where the weights sum to 0.

    Raises:
        ValueError: there is no value, or one is not finite, or the lengths differ.
    """
    top = np.asarray(values, dtype=np.float64)
    bottom = np.ones_like(top) if weights is None else np.asarray(weights, dtype=np.float64)
    if top.ndim != 1 or len(top) == 0 or top.shape != bottom.shape:
        raise ValueError(f"expected as many weights as values and at least one, got {bottom.shape} and {top.shape}")
    if not (np.isfinite(top).all() and np.isfinite(bottom).all()):
        raise ValueError("the values must be finite; leave out what could not be measured")
    draws = np.random.default_rng(_SEED).integers(0, len(top), size=(_RESAMPLES, len(top)))
    tops, bottoms = top[draws].sum(axis=1), bottom[draws].sum(axis=1)
    ratios = np.divide(tops, bottoms, out=np.zeros_like(tops), where=bottoms > 0)
    mean = float(top.sum() / bottom.sum()) if bottom.sum() > 0 else 0.0
    low, high = np.quantile(ratios, [0.025, 0.975]).tolist()
    return Estimate(mean, min(low, mean), max(high, mean))


def share(values: Sequence[float]) -> Estimate:
    """The share of ones among values that are 0 or 1.

    Raises:
        ValueError: there is no value, or one is neither.
    """
    if any(value not in (0.0, 1.0) for value in values):
        raise ValueError("a share is taken of values that are 0 or 1")
    return wilson(int(sum(values)), len(values))
