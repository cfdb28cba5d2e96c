from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from agent_envs.errors import UnknownNameError
from agent_envs.types import Segment, StopReason
from agent_trainer.batch import RowBatch, make_rows, pad_rows
from agent_trainer.estimators import ESTIMATORS, AdvantageInputs, Advantages
from tests.agent_trainer.episodes import episode


def estimate(rows: RowBatch, name: str = "grpo", *, on_all_tokens: bool = False) -> Advantages:
    return ESTIMATORS.get(name)(
        AdvantageInputs(
            rewards=rows.rewards,
            action_mask=rows.action_mask,
            loss_mask=rows.completion_mask.bool() if on_all_tokens else rows.action_mask,
            turn_ids=rows.turn_ids,
            episode_ids=rows.episode_ids,
            group_ids=rows.group_ids,
            valid=rows.valid,
        )
    )


def per_row(advantages: Advantages) -> list[float]:
    """The one number of each row: 0, or what its tokens share."""
    return [max(row.tolist(), key=abs) for row in advantages.values]


def test_numbers_worked_out_by_hand() -> None:
    # Three turns, observations of 7 and 1 tokens. Returns 1 (0.25 + 0.75), 0, 0, 1: mean 1/2, deviations +-1/2, and
    # the sample's standard deviation is sqrt(4 * (1/4) / 3) = 1/sqrt(3), so the advantages are +-sqrt(3)/2.
    episodes = [
        episode("PPPaaaeeeeeeeaaeaaa", {5: 0.25, 18: 0.75}),
        episode("PPPaea"),
        episode("PPPa"),
        episode("PPPaaeaa", {7: 1.0}),
    ]
    rows = make_rows(episodes, [0, 1, 2, 3], [0, 0, 0, 0])
    scaled, plain = estimate(rows), estimate(rows, "grpo_no_std")
    half = math.sqrt(3) / 2
    assert per_row(scaled) == pytest.approx([half, -half, -half, half])
    assert per_row(plain) == pytest.approx([0.5, -0.5, -0.5, 0.5])
    assert torch.equal(scaled.values != 0, rows.action_mask)
    assert (scaled.num_groups, scaled.groups_without_spread) == (1, 0)


def test_groups_are_compared_among_themselves_only() -> None:
    rows = make_rows([episode("Pa", {1: r}) for r in (0, 10, 1, 3)], [0, 1, 2, 3], [5, 2, 5, 2])
    assert per_row(estimate(rows, "grpo_no_std")) == pytest.approx([-0.5, 3.5, 0.5, -3.5])


@pytest.mark.parametrize("rewards", [(1.0, 1.0, 1.0), (0.0, 0.0, 0.0)])
def test_a_group_without_spread_gives_no_signal_and_is_reported(rewards: tuple[float, ...]) -> None:
    found = estimate(make_rows([episode("Pa", {1: r}) for r in rewards], [0, 1, 2], [0, 0, 0]))
    assert not found.values.any()
    assert not found.has_signal.any()
    assert (found.num_groups, found.groups_without_spread) == (1, 1)


def test_a_group_of_one_gives_no_signal() -> None:
    found = estimate(make_rows([episode("Pa", {1: 3.0}), episode("Pa", {1: 1.0})], [0, 1], [0, 1]))
    assert not found.values.any()
    assert found.groups_without_spread == 2


def test_a_failed_episode_is_left_out_of_the_baseline_and_gets_nothing() -> None:
    failed = episode("Pa", {1: 100.0}, reason=StopReason.TOOL_FAILURE)
    rows = make_rows([failed, episode("Pa", {1: 1.0}), episode("Pa")], [0, 1, 2], [0, 0, 0])
    found = estimate(rows, "grpo_no_std")
    assert per_row(found) == pytest.approx([0, 0.5, -0.5])
    assert found.has_signal.tolist() == [False, True, True]


def test_all_episodes_failed_gives_nothing_at_all() -> None:
    failed = episode("Pa", {1: 1.0}, reason=StopReason.WALL_CLOCK)
    found = estimate(make_rows([failed, failed], [0, 1], [0, 0]))
    assert not found.values.any()
    assert found.num_groups == 0


def test_an_episode_of_several_segments_counts_once_in_its_group() -> None:
    segments = (Segment(0, 4, 1), Segment(4, 7, 1))
    long = episode("PaeaPaa", {3: 0.5, 6: 0.5}, segments=segments)
    rows = make_rows([long, episode("Pa"), episode("Pa", {1: 2.0})], [0, 1, 2], [0, 0, 0])
    assert per_row(estimate(rows, "grpo_no_std")) == pytest.approx([0, 0, -1, 1])  # the mean is (1 + 0 + 2) / 3


def test_without_the_loss_mask_the_environments_tokens_get_the_advantage_too() -> None:
    rows = make_rows([episode("Paeea", {4: 1.0}), episode("Pae")], [0, 1], [0, 0])
    found = estimate(rows, on_all_tokens=True)
    assert torch.equal(found.values != 0, rows.completion_mask.bool())


def test_rows_of_weight_zero_change_no_advantage() -> None:
    rows = make_rows([episode("Paeea", {4: 1.0}), episode("Pae")], [0, 1], [0, 0])
    assert torch.equal(estimate(pad_rows(rows, 8)).values[:2], estimate(rows).values)
    assert not estimate(pad_rows(rows, 8)).values[2:].any()


RETURNS = st.lists(st.integers(-8, 8), min_size=4, max_size=8)


@given(RETURNS, st.randoms(use_true_random=False))
def test_the_order_of_the_rows_does_not_matter(returns: list[int], random: object) -> None:
    groups = [index % 2 for index in range(len(returns))]
    order = list(range(len(returns)))
    random.shuffle(order)  # type: ignore[attr-defined]
    episodes = [episode("Paa", {2: value / 4}) for value in returns]
    straight = per_row(estimate(make_rows(episodes, order, groups)))
    mixed = per_row(
        estimate(make_rows([episodes[i] for i in order], [order[i] for i in order], [groups[i] for i in order]))
    )
    assert mixed == pytest.approx([straight[i] for i in order], abs=1e-6)


@given(RETURNS, st.lists(st.integers(0, 60), min_size=8, max_size=8))
def test_longer_observations_change_no_advantage_of_an_action_token(returns: list[int], lengths: list[int]) -> None:
    numbers = range(len(returns))
    layouts = ["Paa" + "e" * length + "aaa" for length in lengths[: len(returns)]]
    short = make_rows([episode("Paaeaaa", {6: value}) for value in returns], numbers, [0 for _ in numbers])
    pairs = zip(layouts, returns, strict=True)
    long = make_rows([episode(text, {len(text) - 1: value}) for text, value in pairs], numbers, [0 for _ in numbers])
    assert torch.equal(estimate(short).values[short.action_mask], estimate(long).values[long.action_mask])


@given(RETURNS, st.floats(0.25, 8), st.floats(-5, 5))
def test_scaled_advantages_ignore_the_unit_and_the_zero_of_the_reward(
    returns: list[int], scale: float, shift: float
) -> None:
    numbers = range(len(returns))
    before = estimate(make_rows([episode("Pa", {1: r}) for r in returns], numbers, [0 for _ in numbers]))
    moved = [episode("Pa", {1: scale * r + shift}) for r in returns]
    after = estimate(make_rows(moved, numbers, [0 for _ in numbers]))
    assert np.allclose(before.values, after.values, atol=1e-4)
    assert abs(float(before.values.sum())) < 1e-4


def test_an_unknown_estimator_is_an_error_that_lists_the_known_ones() -> None:
    with pytest.raises(UnknownNameError, match="grpo, grpo_no_std"):
        ESTIMATORS.get("gprompo")
