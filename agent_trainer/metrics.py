"""What a run reports: numbers per episode, shares over a batch, and means over an update's tokens.

Values are kept per episode, so that averaging over whatever lies between two logs gives the mean over its episodes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor

from agent_envs.types import Episode, EventKind

Values = dict[str, list[float]]


def episode_values(episodes: Sequence[Episode | None]) -> Values:
    """Per-episode numbers by name; episodes that failed (or are None) count under ``failed_share`` and nowhere else.

    ``reward`` is the sum over the episode, ``truncated_share`` and ``failed_share`` are 0 or 1 each, and the task's own
    scores (``em``, ``f1``, ...) come as they are.
    """
    values: Values = defaultdict(list)
    for episode in episodes:
        failed = episode is None or episode.failed
        values["failed_share"].append(float(failed))
        if episode is None or failed:
            continue
        own = {
            "reward": episode.total_reward,
            "turns": float(len(episode.turns)),
            "tool_calls": float(sum(event.kind is EventKind.CALL for event in episode.events)),
            "malformed_calls": float(sum(event.kind.is_malformed for event in episode.events)),
            "no_action_turns": float(sum(event.kind is EventKind.NO_ACTION for event in episode.events)),
            "truncated_share": float(episode.truncated),
            "action_tokens": float(episode.action_mask.sum()),
            "episode_tokens": float(len(episode.tokens)),
        }
        for name, value in {**episode.metrics, **own}.items():
            values[name].append(float(value))
    return dict(values)


def malformed_share(values: Mapping[str, Sequence[float]]) -> float:
    """Malformed calls among all calls of a batch, well-formed or not; 0 where there are none."""
    malformed = sum(values.get("malformed_calls", ()))
    return malformed / max(1.0, malformed + sum(values.get("tool_calls", ())))


class WindowSums:
    """Sums over the micro-batches of one update, turned into means per token at its end."""

    def __init__(self) -> None:
        """Begins empty."""
        self._sums: dict[str, Tensor] = {}

    def add(self, sums: Mapping[str, Tensor], tokens: Tensor) -> None:
        """Adds one micro-batch: 0-d sums, and the number of tokens that they are over."""
        for name, value in {**sums, "tokens": tokens}.items():
            number = value.detach().double()
            self._sums[name] = self._sums[name] + number if name in self._sums else number

    def means(self, reduce: Callable[[Tensor], Tensor]) -> dict[str, float]:
        """The means per token, and ``tokens`` itself (alone where it is 0); begins anew.

        Args:
            reduce: sums a tensor over all processes.
        """
        names = sorted(self._sums)
        totals = dict(zip(names, reduce(torch.stack([self._sums[name] for name in names])).tolist(), strict=True))
        self._sums = {}
        tokens = totals.pop("tokens")
        means = {name: total / tokens for name, total in totals.items()} if tokens else {}
        return {**means, "tokens": tokens}
