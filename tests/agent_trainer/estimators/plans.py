"""Batches of episodes as plans: what was sampled and earned, apart from how it is laid out as rows of tokens."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from hypothesis import strategies as st
from torch import Tensor

from agent_envs.types import Segment, StopReason
from agent_trainer.batch import RowBatch, make_rows
from agent_trainer.estimators import AdvantageInputs, Advantages
from tests.agent_trainer.episodes import episode

PROMPT = "PP"


@dataclass(frozen=True)
class TurnPlan:
    """One turn: what the critic says before each of its tokens gives their number.

    ``reward_at`` counts from the turn's last token: 0 puts the reward there, n on the n-th token of the observation.
    """

    values: tuple[float, ...] = (0.0,)
    observation: int = 1
    reward: float = 0.0
    anchor: int = 0
    reward_at: int = 0
    opens_segment: bool = False


@dataclass(frozen=True)
class EpisodePlan:
    """An episode and what stands beside it."""

    turns: tuple[TurnPlan, ...]
    group: int = 0
    reason: StopReason = StopReason.ANSWERED
    last_value: float = 0.0
    baseline: float = 0.0

    @property
    def total(self) -> float:
        return sum(turn.reward for turn in self.turns)


def three_turns(
    rewards: Sequence[float] = (0.25, 0.0, 1.0), values: Sequence[float] = (0.5, 0.25, 0.5), group: int = 0
) -> EpisodePlan:
    """3, 2 and 3 tokens with observations of 197 and 1 tokens between; one value per turn, on all its tokens."""
    sizes, observations = (3, 2, 3), (197, 1, 0)
    parts = zip(sizes, observations, rewards, values, strict=True)
    turns = tuple(TurnPlan((value,) * size, observation, reward) for size, observation, reward, value in parts)
    return EpisodePlan(turns, group)


def lay_out(plans: Sequence[EpisodePlan], numbers: Sequence[int] | None = None) -> RowBatch:
    """The rows of the episodes, numbered in order or as given."""
    episodes = [episode(*_letters(plan)[:2], segments=_letters(plan)[2], reason=plan.reason) for plan in plans]
    return make_rows(episodes, numbers or range(len(plans)), [plan.group for plan in plans])


def inputs_of(
    plans: Sequence[EpisodePlan], rows: RowBatch | None = None, *, on_all_tokens: bool = False
) -> AdvantageInputs:
    """What the trainer hands to an estimator; the critic's values are NaN wherever nobody may look."""
    rows = lay_out(plans) if rows is None else rows
    row_of = [plan for plan in plans for _ in range(1 + sum(turn.opens_segment for turn in plan.turns))]
    row_of += [EpisodePlan((TurnPlan(),), baseline=math.nan)] * (len(rows) - len(row_of))  # rows of weight zero
    ids = rows.episode_ids.tolist()
    is_last = [row + 1 == len(ids) or ids[row + 1] != ids[row] for row in range(len(ids))]
    values = torch.full(rows.rewards.shape, math.nan)
    values[rows.action_mask] = torch.tensor(
        [value for plan in plans for turn in plan.turns for value in turn.values], dtype=torch.float32
    )
    anchors = [
        [plan.turns[turn].anchor if turn >= 0 else -1 for turn in ids]
        for plan, ids in zip(row_of, rows.turn_ids.tolist(), strict=True)
    ]
    return AdvantageInputs(
        rewards=rows.rewards,
        action_mask=rows.action_mask,
        loss_mask=rows.completion_mask.bool() if on_all_tokens else rows.action_mask,
        turn_ids=rows.turn_ids,
        episode_ids=rows.episode_ids,
        group_ids=rows.group_ids,
        valid=rows.valid,
        values=values,
        terminated=torch.tensor([plan.reason.terminated for plan in row_of]),
        last_values=torch.tensor([p.last_value if last else math.nan for p, last in zip(row_of, is_last, strict=True)]),
        baselines=torch.tensor([plan.baseline for plan in row_of]),
        anchor_ids=torch.tensor(anchors),
    )


def by_episode(tensor: Tensor, rows: RowBatch | AdvantageInputs) -> dict[int, list[float]]:
    """The numbers on each episode's action tokens, in order, by the episode's number."""
    found: dict[int, list[float]] = {}
    for number, values, mask in zip(rows.episode_ids.tolist(), tensor, rows.action_mask, strict=True):
        if number >= 0:
            found.setdefault(number, []).extend(values[mask].tolist())
    return found


def per_turn(found: Advantages, inputs: AdvantageInputs) -> dict[int, list[float]]:
    """The one number of each turn, by episode; fails where a turn's tokens differ."""
    result: dict[int, list[float]] = {}
    values, turns = by_episode(found.values, inputs), by_episode(inputs.turn_ids, inputs)
    for number in values:
        of_turn: dict[float, set[float]] = {}
        for value, turn in zip(values[number], turns[number], strict=True):
            of_turn.setdefault(turn, set()).add(value)
        assert all(len(numbers) == 1 for numbers in of_turn.values())
        result[number] = [min(of_turn[turn]) for turn in sorted(of_turn)]
    return result


def with_observations(plans: Sequence[EpisodePlan], lengths: Sequence[int]) -> list[EpisodePlan]:
    """The same episodes with other observations; rewards move to the turns' last tokens."""
    remaining = iter(lengths)
    return [
        replace(plan, turns=tuple(replace(turn, observation=next(remaining), reward_at=0) for turn in plan.turns))
        for plan in plans
    ]


def _letters(plan: EpisodePlan) -> tuple[str, dict[int, float], list[Segment]]:
    layout, rewards, starts = PROMPT, {}, [0]
    for turn in plan.turns:
        if turn.opens_segment:
            starts.append(len(layout))
            layout += PROMPT
        layout += "a" * len(turn.values)
        if turn.reward:
            rewards[len(layout) - 1 + turn.reward_at] = turn.reward
        layout += "e" * turn.observation
    stops = [*starts[1:], len(layout)]
    return layout, rewards, [Segment(start, stop, len(PROMPT)) for start, stop in zip(starts, stops, strict=True)]


QUARTERS = st.integers(-8, 8).map(lambda number: number / 4)
REASONS = st.sampled_from([StopReason.ANSWERED, StopReason.MAX_TURNS, StopReason.CONTEXT, StopReason.TOOL_FAILURE])


@st.composite
def turn_plans(draw: st.DrawFn, first: bool) -> TurnPlan:
    observation = draw(st.integers(1, 12))
    return TurnPlan(
        values=tuple(draw(st.lists(QUARTERS, min_size=1, max_size=4))),
        observation=observation,
        reward=draw(QUARTERS),
        anchor=draw(st.integers(0, 2)),
        reward_at=draw(st.integers(0, observation)),
        opens_segment=not first and draw(st.booleans()),
    )


@st.composite
def episode_plans(draw: st.DrawFn) -> EpisodePlan:
    count = draw(st.integers(1, 3))
    return EpisodePlan(
        turns=tuple(draw(turn_plans(first=index == 0)) for index in range(count)),
        group=draw(st.integers(0, 1)),
        reason=draw(REASONS),
        last_value=draw(QUARTERS),
        baseline=0.25,
    )


BATCHES = st.lists(episode_plans(), min_size=1, max_size=5)
