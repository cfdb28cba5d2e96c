"""Episodes written out by hand, for tests of what is made of them."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from agent_envs.types import Episode, Segment, StopReason, Turn

# A letter per token: P prompt, a sampled by the policy, e written by the environment.
THREE_TURNS = "PPPaaaeeeeeeeaaeaaa"


def episode(
    layout: str = THREE_TURNS,
    rewards: dict[int, float] | None = None,
    *,
    tokens: Sequence[int] | None = None,
    segments: Sequence[Segment] | None = None,
    reason: StopReason = StopReason.ANSWERED,
    task_id: str = "task",
    sampler_logprob: float = -1.0,
) -> Episode:
    """An episode whose tokens are laid out as the letters say; ``rewards`` by position."""
    length = len(layout)
    action_mask = np.array([letter == "a" for letter in layout])
    reward_array = np.zeros(length, dtype=np.float32)
    for position, reward in (rewards or {}).items():
        reward_array[position] = reward
    turn_ids, turns = _turns(layout, reward_array)
    prompt_length = len(layout) - len(layout.lstrip("P"))
    return Episode(
        env_id="Test-v0",
        task_id=task_id,
        seed=0,
        tokens=np.array(tokens if tokens is not None else range(1, length + 1), dtype=np.int32),
        action_mask=action_mask,
        turn_ids=turn_ids,
        rewards=reward_array,
        sampler_logprobs=np.where(action_mask, np.float32(sampler_logprob), np.float32(math.nan)),
        turns=turns,
        segments=tuple(segments or (Segment(0, length, prompt_length),)),
        events=(),
        terminated=reason.terminated,
        truncated=not reason.terminated,
        reason=reason,
        metrics={"em": float(reward_array.sum() > 0)},
    )


def _turns(layout: str, rewards: np.ndarray) -> tuple[np.ndarray, tuple[Turn, ...]]:
    turn_ids = np.full(len(layout), -1, dtype=np.int32)
    bounds: list[list[int]] = []
    for position, letter in enumerate(layout):
        if letter == "P":
            continue
        if letter == "a" and (position == 0 or layout[position - 1] != "a"):
            bounds.append([position, position, position])
        bounds[-1][2] = position + 1
        if letter == "a":
            bounds[-1][1] = position + 1
        turn_ids[position] = len(bounds) - 1
    turns = tuple(
        Turn(index, start, stop, end, text="", reward=float(rewards[start:end].sum()))
        for index, (start, stop, end) in enumerate(bounds)
    )
    return turn_ids, turns
