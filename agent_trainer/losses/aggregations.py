"""From one number per token to one number: what counts the same, tokens, turns, rows or episodes.

Each gives a micro-batch's share. The shares of a window add up to the loss of the window in one piece, however it was
split, since the denominators are the window's and not the micro-batch's.
"""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from agent_envs.registry import Registry
from agent_trainer.losses.layout import Denominators, TokenLayout, masked, mean_over_row, turn_sizes

Aggregation = Callable[[Tensor, TokenLayout, Denominators, float], Tensor]


def aggregate_by_token(per_token: Tensor, layout: TokenLayout, counts: Denominators, max_tokens: float) -> Tensor:
    """The mean over all tokens of the window. Source: arXiv 2503.14476, section 3.3."""
    return _share(masked(per_token, layout.mask).sum(), counts.tokens)


def aggregate_by_sequence(per_token: Tensor, layout: TokenLayout, counts: Denominators, max_tokens: float) -> Tensor:
    """The mean over the tokens of each row, then over the window's rows. Source: arXiv 2402.03300, eq. 3."""
    return _share(mean_over_row(per_token, layout.mask).sum(), counts.sequences)


def aggregate_by_turn(per_token: Tensor, layout: TokenLayout, counts: Denominators, max_tokens: float) -> Tensor:
    """The mean over the tokens of each turn, then over the window's turns. Source: StepPPO, arXiv 2604.18401."""
    weighed = masked(per_token, layout.mask) / turn_sizes(layout).clamp(min=1)
    return _share(weighed.sum(), counts.turns)


def aggregate_by_episode(per_token: Tensor, layout: TokenLayout, counts: Denominators, max_tokens: float) -> Tensor:
    """The mean over the tokens of each episode, in however many rows, then over the window's episodes.

    With one row per episode it is the aggregation by sequence.
    """
    weighed = masked(per_token, layout.mask).sum(dim=1) / layout.episode_tokens.clamp(min=1)
    return _share(weighed.sum(), counts.episodes)


def aggregate_by_constant(per_token: Tensor, layout: TokenLayout, counts: Denominators, max_tokens: float) -> Tensor:
    """The sum over tokens, divided by the window's rows and a stated length. Source: arXiv 2503.20783, section 3.2."""
    return _share(masked(per_token, layout.mask).sum() / max_tokens, counts.sequences)


AGGREGATIONS: Registry[Aggregation] = Registry("loss aggregation")
AGGREGATIONS.register("token", aggregate_by_token)
AGGREGATIONS.register("sequence", aggregate_by_sequence)
AGGREGATIONS.register("turn", aggregate_by_turn)
AGGREGATIONS.register("episode", aggregate_by_episode)
AGGREGATIONS.register("constant", aggregate_by_constant)


def _share(total: Tensor, count: Tensor) -> Tensor:
    # An empty window has a sum of zero, attached to the graph, and must not be divided by its count of zero.
    return total / count.where(count > 0, 1.0)
