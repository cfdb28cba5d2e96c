"""Where a loss looks, and what the tokens there belong to: rows, turns, episodes.

Masked tokens are those where ``TokenLayout.mask`` is True. All counts and means here are over masked tokens alone.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True)
class TokenLayout:
    """The masked tokens of some rows and what they belong to.

    Attributes:
        mask: bool ``[B, T]``, True where the loss looks: the policy's own tokens, except in the ablation that trains on
            the environment's too.
        turn_ids: int64 ``[B, T]``, the turn of each token; -1 on padding. A turn lies in one row.
        episode_tokens: int64 ``[B]``, masked tokens of the row's whole episode: of all its rows, in whichever
            micro-batch they are.
    """

    mask: Tensor
    turn_ids: Tensor
    episode_tokens: Tensor

    def __post_init__(self) -> None:
        """Raises ValueError where the shapes contradict each other."""
        if self.mask.shape != self.turn_ids.shape or self.mask.shape[:1] != self.episode_tokens.shape:
            raise ValueError(
                f"expected mask [B, T], turn_ids [B, T] and episode_tokens [B], got {tuple(self.mask.shape)}, "
                f"{tuple(self.turn_ids.shape)} and {tuple(self.episode_tokens.shape)}"
            )

    @classmethod
    def of_rows(cls, mask: Tensor, turn_ids: Tensor, episode_ids: Tensor) -> TokenLayout:
        """The layout of rows among which every row of their episodes is; to be made before they are split.

        Args:
            mask: bool ``[B, T]``.
            turn_ids: int64 ``[B, T]``.
            episode_ids: int64 ``[B]``, the same for the rows of one episode.
        """
        _, episode_of = torch.unique(episode_ids, return_inverse=True)
        of_row = mask.sum(dim=1)
        of_episode = torch.zeros_like(of_row).index_add(0, episode_of, of_row)
        return cls(mask, turn_ids, of_episode[episode_of])


@dataclass(frozen=True, slots=True)
class Denominators:
    """What sums are divided by: counts over the whole accumulation window and all processes, 0-d float each.

    Where gradients are averaged over processes, divide the counts by the number of processes beforehand.

    Attributes:
        tokens: masked tokens.
        sequences: rows with at least one of them.
        turns: turns with at least one of them.
        episodes: episodes with at least one of them. One whose rows lie in several windows counts in each by the share
            of its masked tokens that lies there.
    """

    tokens: Tensor
    sequences: Tensor
    turns: Tensor
    episodes: Tensor

    @classmethod
    def count(cls, layout: TokenLayout) -> Denominators:
        """The counts of one micro-batch; those of a window are their sums."""
        of_row = layout.mask.sum(dim=1)
        return cls(
            tokens=of_row.sum().float(),
            sequences=(of_row > 0).sum().float(),
            turns=(_turn_sums(layout.mask.long(), layout)[0] > 0).sum().float(),
            episodes=(of_row / layout.episode_tokens.clamp(min=1)).sum().float(),
        )

    @classmethod
    def unstack(cls, counts: Tensor) -> Denominators:
        """From float ``[4]``, as ``stack`` gives it."""
        return cls(*counts.unbind())

    def stack(self) -> Tensor:
        """Float ``[4]``, to be summed over micro-batches and processes."""
        return torch.stack([self.tokens, self.sequences, self.turns, self.episodes])


def masked(values: Tensor, mask: Tensor) -> Tensor:
    """``values`` with zeros, and a gradient of exactly zero, where ``mask`` is False, even over NaN."""
    return values.masked_fill(~mask, 0.0)


def mean_over_row(values: Tensor, mask: Tensor) -> Tensor:
    """``[B, 1]``: the mean of each row's masked tokens; 0 for a row without any."""
    return masked(values, mask).sum(dim=1, keepdim=True) / mask.sum(dim=1, keepdim=True).clamp(min=1)


def mean_over_turn(values: Tensor, layout: TokenLayout) -> Tensor:
    """``[B, T]``: at each token the mean over the masked tokens of its turn; 0 for a turn without any."""
    return sum_over_turn(masked(values, layout.mask), layout) / turn_sizes(layout).clamp(min=1)


def turn_sizes(layout: TokenLayout) -> Tensor:
    """int64 ``[B, T]``: at each token how many masked tokens its turn has."""
    return sum_over_turn(layout.mask.long(), layout)


def sum_over_turn(values: Tensor, layout: TokenLayout) -> Tensor:
    """``[B, T]``: at each token the sum of ``values`` over its turn."""
    sums, slots = _turn_sums(values, layout)
    return sums.gather(1, slots)


def _turn_sums(values: Tensor, layout: TokenLayout) -> tuple[Tensor, Tensor]:
    """Sums ``[B, J]`` by slot, and int64 ``[B, T]``, the slot of each token; padding, -1, has a slot of its own."""
    slots = layout.turn_ids + 1
    return values.new_zeros(len(values), int(slots.max()) + 1).scatter_add(1, slots, values), slots


def loss_mask(action_mask: Tensor, completion_mask: Tensor, *, only_actions: bool) -> Tensor:
    """Where the loss looks, bool ``[B, T]``: the policy's tokens, or every completion token.

    The second is the ablation "without the loss mask" of arXiv 2511.14460: the environment's text is trained on as if
    the policy had written it.
    """
    return action_mask if only_actions else completion_mask.bool()
