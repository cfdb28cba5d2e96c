"""Episodes to rows of tensors: one row per segment, so that every sampled token is trained exactly once.

A row is a prompt, padded on the left, and a completion, padded on the right: whatever follows the segment's prompt, the
policy's tokens and the environment's alike. Rows of weight zero fill a batch up to a fixed shape and change no number.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np
import torch
from torch import Tensor

from agent_envs.types import BoolArray, Episode, Float32Array, Segment


@dataclass(frozen=True, slots=True)
class RowBatch:
    """Rows side by side; B rows, P the longest prompt, T the longest completion.

    Attributes:
        prompt_ids: int64 ``[B, P]``, padded on the left.
        prompt_mask: int64 ``[B, P]``, 1 on tokens, 0 on padding.
        completion_ids: int64 ``[B, T]``, padded on the right.
        completion_mask: int64 ``[B, T]``, 1 on tokens, 0 on padding.
        action_mask: bool ``[B, T]``, True where the policy sampled the token.
        turn_ids: int64 ``[B, T]``, the turn of each token; -1 on padding.
        rewards: float32 ``[B, T]``, non-zero only where ``action_mask`` is True.
        sampler_logprobs: float32 ``[B, T]``, of the sampled tokens; NaN where unknown and on all other tokens.
        episode_ids: int64 ``[B]``, which episode the row belongs to; -1 for a row of weight zero.
        group_ids: int64 ``[B]``, which group the episode belongs to; -1 for a row of weight zero.
        valid: bool ``[B]``; False where the infrastructure ended the episode, and for rows of weight zero.
    """

    prompt_ids: Tensor
    prompt_mask: Tensor
    completion_ids: Tensor
    completion_mask: Tensor
    action_mask: Tensor
    turn_ids: Tensor
    rewards: Tensor
    sampler_logprobs: Tensor
    episode_ids: Tensor
    group_ids: Tensor
    valid: Tensor

    def __len__(self) -> int:
        return len(self.episode_ids)

    def select(self, keep: Tensor) -> RowBatch:
        """The rows where ``keep``, bool ``[B]``, is True; the width stays."""
        return RowBatch(*(getattr(self, field.name)[keep] for field in fields(self)))

    def to(self, device: torch.device | str) -> RowBatch:
        """The same rows on a device."""
        return RowBatch(*(getattr(self, field.name).to(device) for field in fields(self)))


def make_rows(
    episodes: Sequence[Episode], episode_ids: Sequence[int], group_ids: Sequence[int], pad_id: int = 0
) -> RowBatch:
    """Lays episodes out as rows, in the order of the episodes and of their segments.

    Args:
        episodes: finished episodes, at least one.
        episode_ids: a number of each, unique over all processes.
        group_ids: which episodes are compared with each other.
        pad_id: fills the gaps; any id that the model knows.

    Raises:
        ValueError: no episodes, lists of different lengths, or an episode whose arrays contradict each other.
    """
    if not episodes:
        raise ValueError("no episodes: a batch needs at least one")
    rows = [
        row
        for episode, episode_id, group_id in zip(episodes, episode_ids, group_ids, strict=True)
        for row in _rows_of(episode, episode_id, group_id)
    ]
    prompt_width = max(len(row.prompt) for row in rows)
    width = max(1, *(len(row.completion) for row in rows))
    ones = [np.ones_like(row.completion) for row in rows]
    return RowBatch(
        prompt_ids=_pad_left([row.prompt for row in rows], prompt_width, pad_id),
        prompt_mask=_pad_left([np.ones_like(row.prompt) for row in rows], prompt_width, 0),
        completion_ids=_pad_right([row.completion for row in rows], width, pad_id).long(),
        completion_mask=_pad_right(ones, width, 0).long(),
        action_mask=_pad_right([row.action_mask for row in rows], width, False),
        turn_ids=_pad_right([row.turn_ids for row in rows], width, -1).long(),
        rewards=_pad_right([row.rewards for row in rows], width, 0.0),
        sampler_logprobs=_pad_right([row.sampler_logprobs for row in rows], width, math.nan),
        episode_ids=torch.tensor([row.episode_id for row in rows]),
        group_ids=torch.tensor([row.group_id for row in rows]),
        valid=torch.tensor([row.valid for row in rows]),
    )


def place_rewards(rewards: Float32Array, action_mask: BoolArray) -> Float32Array:
    """Puts every reward on an action token: where it is, else on the last one before it, else on the first of all.

    The sum stays the same, so that a reward that an environment emits for a tool event is never lost.
    Source: the alignment of credit in arXiv 2511.14460; a reward on a masked token is what other systems lose.

    Args:
        rewards: float32 ``[T]`` of one episode.
        action_mask: bool ``[T]``.

    Raises:
        ValueError: there is a reward but no action token to carry it.
    """
    placed = np.zeros(len(rewards), dtype=np.float64)
    where = np.flatnonzero(rewards)
    actions = np.flatnonzero(action_mask)
    if len(where) and not len(actions):
        raise ValueError(f"an episode without action tokens has a reward of {float(rewards.sum())}")
    if len(where):
        before = np.searchsorted(actions, where, side="right") - 1
        np.add.at(placed, actions[np.maximum(before, 0)], rewards[where].astype(np.float64))
    return placed.astype(np.float32)


def pad_rows(batch: RowBatch, multiple: int, pad_id: int = 0) -> RowBatch:
    """Adds rows of weight zero until the number of rows is a multiple of ``multiple`` (and at least that).

    Such a row is one prompt token and nothing else: every mask of its completion is False.
    """
    missing = max(multiple, -(-len(batch) // multiple) * multiple) - len(batch)
    if missing == 0:
        return batch
    prompt_width, width = batch.prompt_ids.shape[1], batch.completion_ids.shape[1]
    prompt_mask = torch.zeros(missing, prompt_width, dtype=torch.long)
    prompt_mask[:, -1] = 1
    blank = RowBatch(
        prompt_ids=torch.full((missing, prompt_width), pad_id),
        prompt_mask=prompt_mask,
        completion_ids=torch.full((missing, width), pad_id),
        completion_mask=torch.zeros(missing, width, dtype=torch.long),
        action_mask=torch.zeros(missing, width, dtype=torch.bool),
        turn_ids=torch.full((missing, width), -1),
        rewards=torch.zeros(missing, width),
        sampler_logprobs=torch.full((missing, width), math.nan),
        episode_ids=torch.full((missing,), -1),
        group_ids=torch.full((missing,), -1),
        valid=torch.zeros(missing, dtype=torch.bool),
    ).to(batch.prompt_ids.device)
    pairs = ((getattr(batch, field.name), getattr(blank, field.name)) for field in fields(batch))
    return RowBatch(*(torch.cat(pair) for pair in pairs))


def flush_left(
    prompt_ids: Tensor, prompt_mask: Tensor, completion_ids: Tensor, completion_mask: Tensor
) -> tuple[Tensor, Tensor]:
    """Moves each row's tokens to the left edge and drops the columns that no row uses.

    With padding only behind the tokens, a causal model needs no attention mask and counts positions from 0, as the
    sampler did; the long gap between a short prompt and the longest one is not computed either.

    Args:
        prompt_ids: int64 ``[B, P]``, padded on the left.
        prompt_mask: int64 ``[B, P]``, 1 on tokens.
        completion_ids: int64 ``[B, T]``, padded on the right.
        completion_mask: int64 ``[B, T]``, 1 on tokens.

    Returns:
        int64 ``[B, L]`` ids, L the longest row, and int64 ``[B]``, where each row's completion begins.
    """
    ids = torch.cat([prompt_ids, completion_ids], dim=1)
    prompt_lengths = prompt_mask.sum(dim=1)
    longest = int((prompt_lengths + completion_mask.sum(dim=1)).max())
    skipped = prompt_ids.shape[1] - prompt_lengths
    columns = torch.arange(longest, device=ids.device)[None, :] + skipped[:, None]
    return ids.gather(1, columns.clamp(max=ids.shape[1] - 1)), prompt_lengths


@dataclass(frozen=True, slots=True)
class _Row:
    """One segment, cut out of its episode."""

    prompt: np.ndarray
    completion: np.ndarray
    action_mask: np.ndarray
    turn_ids: np.ndarray
    rewards: np.ndarray
    sampler_logprobs: np.ndarray
    episode_id: int
    group_id: int
    valid: bool


def _rows_of(episode: Episode, episode_id: int, group_id: int) -> list[_Row]:
    """The rows of one episode.

    Raises:
        ValueError: its arrays differ in length, or its segments miss or repeat tokens.
    """
    _check(episode)
    rewards = place_rewards(episode.rewards, episode.action_mask)
    rows = []
    for segment in episode.segments:
        start, middle, stop = segment.start, segment.start + segment.prompt_length, segment.stop
        rows.append(
            _Row(
                prompt=episode.tokens[start:middle].astype(np.int64),
                completion=episode.tokens[middle:stop].astype(np.int64),
                action_mask=episode.action_mask[middle:stop],
                turn_ids=episode.turn_ids[middle:stop],
                rewards=rewards[middle:stop],
                sampler_logprobs=np.where(episode.action_mask, episode.sampler_logprobs, np.float32(math.nan))[
                    middle:stop
                ],
                episode_id=episode_id,
                group_id=group_id,
                valid=not episode.failed,
            )
        )
    return rows


def _check(episode: Episode) -> None:
    length = len(episode.tokens)
    arrays = (episode.action_mask, episode.turn_ids, episode.rewards, episode.sampler_logprobs)
    if any(len(array) != length for array in arrays):
        lengths = [len(array) for array in arrays]
        raise ValueError(f"episode {episode.task_id!r}: {length} tokens, but arrays of {lengths} beside them")
    if not all(_is_sound(segment) for segment in episode.segments):
        raise ValueError(
            f"episode {episode.task_id!r}: a segment without a prompt, or out of order: {episode.segments}"
        )
    edges = [0, *(edge for segment in episode.segments for edge in (segment.start, segment.stop)), length]
    if any(edges[i] != edges[i + 1] for i in range(0, len(edges), 2)):
        raise ValueError(
            f"episode {episode.task_id!r}: the segments {episode.segments} do not tile its {length} tokens"
        )
    prompts = [episode.action_mask[s.start : s.start + s.prompt_length] for s in episode.segments]
    if any(bool(prompt.any()) for prompt in prompts):
        raise ValueError(
            f"episode {episode.task_id!r}: a sampled token lies in a segment's prompt, where none is trained"
        )


def _is_sound(segment: Segment) -> bool:
    return segment.prompt_length >= 1 and segment.start + segment.prompt_length <= segment.stop


def _pad_left(rows: Sequence[np.ndarray], width: int, value: int) -> Tensor:
    out = np.full((len(rows), width), value, dtype=np.int64)
    for index, row in enumerate(rows):
        out[index, width - len(row) :] = row
    return torch.from_numpy(out)


def _pad_right(rows: Sequence[np.ndarray], width: int, value: float) -> Tensor:
    out = np.full((len(rows), width), value, dtype=rows[0].dtype)
    for index, row in enumerate(rows):
        out[index, : len(row)] = row
    return torch.from_numpy(out)
