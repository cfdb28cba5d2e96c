"""Episodes as sequences of the tokens that count, with the environment's tokens left out as if they were not there.

E episodes of at most K action tokens, in order over all segments: what comes after token k is the next token that the
policy sampled, however long an observation lies between, and whether or not a new segment began. All that is summed or
averaged is summed in float64.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from agent_trainer.estimators.base import AdvantageInputs, Advantages


@dataclass(frozen=True, slots=True)
class Sequences:
    """The valid episodes of an update; padded on the right.

    Attributes:
        index: int64 ``[E, K]``, where each token lies among the B * T positions of the rows; 0 on padding.
        present: bool ``[E, K]``, False on padding.
        turns: int64 ``[E, K]``, the token's turn; -1 on padding.
        last_row: int64 ``[E]``, the row that holds the episode's last segment.
        groups: int64 ``[E]``, the episode's group, numbered from 0.
        mask: bool ``[B, T]``, the positions that are tokens of a sequence.
    """

    index: Tensor
    present: Tensor
    turns: Tensor
    last_row: Tensor
    groups: Tensor
    mask: Tensor

    @property
    def num_groups(self) -> int:
        """Groups with at least one valid episode."""
        return int(self.groups.max()) + 1 if len(self.groups) else 0

    def take(self, rows: Tensor) -> Tensor:
        """float64 ``[E, K]`` out of ``[B, T]``; zero on padding. What lies elsewhere in the rows has no influence."""
        return rows.detach().reshape(-1)[self.index].double().where(self.present, 0.0)

    def take_last(self, rows: Tensor) -> Tensor:
        """``[E]`` out of ``[B]``: what the episode's last row says."""
        return rows.detach()[self.last_row]

    def ends_turn(self) -> Tensor:
        """Where a turn ends: bool ``[E, K]``, True on the last token of each turn."""
        following = torch.cat([self.turns[:, 1:], torch.full_like(self.turns[:, :1], -1)], dim=1)
        return self.present & (following != self.turns)

    def starts_turn(self) -> Tensor:
        """Where a turn begins: bool ``[E, K]``, True on the first token of each turn."""
        before = torch.cat([torch.full_like(self.turns[:, :1], -1), self.turns[:, :-1]], dim=1)
        return self.present & (before != self.turns)

    def per_turn(self, values: Tensor) -> Tensor:
        """``[E, K]``: every token takes the value at the first token of its turn."""
        places = torch.arange(values.shape[1], device=values.device).expand_as(self.index)
        first = places.where(self.starts_turn(), 0).cummax(dim=1).values
        return values.gather(1, first)

    def groups_with(self, flags: Tensor) -> Tensor:
        """Groups, bool ``[G]``, of which some episode has its flag, bool ``[E]``, set."""
        counts = torch.zeros(self.num_groups, dtype=torch.long, device=flags.device)
        return counts.index_add(0, self.groups, flags.long()) > 0

    def put(self, values: Tensor) -> Tensor:
        """float32 ``[B, T]`` out of ``[E, K]``; zero off the sequences."""
        rows = torch.zeros(self.mask.shape, dtype=torch.float32, device=values.device)
        rows.view(-1)[self.index[self.present]] = values[self.present].float()
        return rows


def make_sequences(inputs: AdvantageInputs, mask: Tensor | None = None) -> Sequences:
    """Collects the tokens of the valid episodes.

    Args:
        inputs: rows of all processes.
        mask: bool ``[B, T]``, which tokens count; None for the policy's own.

    Raises:
        ValueError: a reward lies off the action tokens, where it would be lost.
    """
    if bool(inputs.rewards.masked_fill(inputs.action_mask, 0.0).any()):
        raise ValueError("a reward lies off the action tokens; place_rewards puts it where it counts")
    mask = inputs.valid[:, None] & (inputs.action_mask if mask is None else mask)
    rows = torch.nonzero(inputs.valid)[:, 0]
    _, episode_of_row = torch.unique(inputs.episode_ids[rows], return_inverse=True)
    num_episodes = int(episode_of_row.max()) + 1 if len(rows) else 0
    where = torch.nonzero(mask[rows])
    episode = episode_of_row[where[:, 0]]
    order = torch.argsort(episode, stable=True)
    episode, position = episode[order], (rows[where[:, 0]] * mask.shape[1] + where[:, 1])[order]
    counts = torch.bincount(episode, minlength=num_episodes)
    width = int(counts.max()) if num_episodes else 0
    place = torch.arange(len(episode), device=episode.device) - (counts.cumsum(0) - counts)[episode]
    index = position.new_zeros(num_episodes, width)
    index[episode, place] = position
    present = torch.arange(width, device=episode.device)[None, :] < counts[:, None]
    last_row = rows.new_zeros(num_episodes).scatter_reduce(0, episode_of_row, rows, "amax", include_self=False)
    return Sequences(
        index=index,
        present=present,
        turns=inputs.turn_ids.reshape(-1)[index].where(present, -1),
        last_row=last_row,
        groups=torch.unique(inputs.group_ids[last_row], return_inverse=True)[1],
        mask=mask,
    )


def to_advantages(inputs: AdvantageInputs, sequences: Sequences, values: Tensor) -> Advantages:
    """Advantages ``[E, K]`` back on the rows; a group teaches if any of its tokens has one that is not zero.

    Where the loss looks at the environment's tokens (an ablation), these share the advantage of the last token before
    them that has its own.
    """
    teaches = sequences.groups_with((values != 0).any(dim=1))
    has_signal = torch.zeros_like(inputs.valid)
    _, group_of_row = torch.unique(inputs.group_ids[inputs.valid], return_inverse=True)
    has_signal[inputs.valid] = teaches[group_of_row]
    carried = _carry(sequences.put(values), sequences.mask)
    return Advantages(
        values=carried * (inputs.loss_mask & inputs.valid[:, None]),
        has_signal=has_signal,
        num_groups=sequences.num_groups,
        groups_without_spread=int((~teaches).sum()),
    )


def _carry(rows: Tensor, mask: Tensor) -> Tensor:
    """Fills positions off the mask, ``[B, T]``, from the last one on it before them; zero where there is none."""
    columns = torch.arange(mask.shape[1], device=mask.device).expand_as(mask)
    latest = columns.where(mask, -1).cummax(dim=1).values
    return rows.gather(1, latest.clamp(min=0))
