"""Scores compared with those of their group."""

from __future__ import annotations

from torch import Tensor

from agent_trainer.estimators.sequences import Sequences

SPREAD = 1e-6  # returns closer than this are the same number, summed in another order


def relative_to_group(scores: Tensor, group_of: Tensor, *, divide_by_std: bool) -> Tensor:
    """float64 ``[N]``: x - mean(group of x), perhaps divided by the standard deviation (over n - 1).

    Zero in a group of fewer than two, or without spread. Nothing is added to the deviation: there is spread, or no
    division.

    Args:
        scores: float64 ``[N]``.
        group_of: int64 ``[N]``, numbers from 0.
        divide_by_std: divide.
    """
    if len(scores) == 0:
        return scores
    zeros = scores.new_zeros(int(group_of.max()) + 1)
    counts = zeros.index_add(0, group_of, scores.new_ones(len(scores)))
    mean = zeros.index_add(0, group_of, scores) / counts
    highest = zeros.scatter_reduce(0, group_of, scores, "amax", include_self=False)
    lowest = zeros.scatter_reduce(0, group_of, scores, "amin", include_self=False)
    spread = highest - lowest > SPREAD
    centred = scores - mean[group_of]
    if divide_by_std:
        variance = zeros.index_add(0, group_of, centred.square()) / (counts - 1).clamp(min=1)
        centred = centred / variance.sqrt().where(spread, 1.0)[group_of]
    return centred.where(spread[group_of], 0.0)


def on_every_token(sequences: Sequences, scores: Tensor) -> Tensor:
    """float64 ``[E, K]`` out of ``[E]``: an episode's one number on each of its tokens, zero on padding."""
    return scores[:, None].where(sequences.present, 0.0)
