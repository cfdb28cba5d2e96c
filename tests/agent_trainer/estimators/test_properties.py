"""What holds for every estimator, on batches that hypothesis makes up."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_envs.types import StopReason
from agent_trainer.batch import RowBatch, pad_rows
from agent_trainer.estimators import ESTIMATORS, AdvantageInputs, Estimator, make_estimator
from agent_trainer.estimators.gae import BiLevelGae, TokenGae, TurnGae
from tests.agent_trainer.estimators.plans import (
    BATCHES,
    QUARTERS,
    EpisodePlan,
    TurnPlan,
    by_episode,
    inputs_of,
    lay_out,
    with_observations,
)

ALL = tuple(ESTIMATORS)
OF_GROUPS = ("grpo", "grpo_no_std", "dr_grpo", "rloo", "reinforce_pp_baseline", "turn_grpo", "gigpo")
DECAYING = {
    "reinforce_pp": {"gamma": 0.5},
    "turn_grpo": {"gamma": 0.5},
    "gigpo": {"gamma": 0.5},
    "gae": {"gamma": 0.5, "lam": 0.75},
    "gae_turn": {"gamma": 0.5, "lam": 0.75},
    "gae_bilevel": {"token_gamma": 0.5, "token_lam": 0.75, "turn_gamma": 0.25, "turn_lam": 0.5},
}

every_estimator = pytest.mark.parametrize("name", ALL)
few = settings(max_examples=10, deadline=None)


def estimator(name: str) -> Estimator:
    """With discounts, so that a token too many between two others would show."""
    return make_estimator(name, DECAYING.get(name))


def advantages(name: str, inputs: AdvantageInputs) -> dict[int, list[float]]:
    return by_episode(estimator(name)(inputs).values, inputs)


def close(expected: dict[int, list[float]]) -> dict[int, object]:
    return {number: pytest.approx(values, abs=1e-5) for number, values in expected.items()}


@every_estimator
@few
@given(BATCHES, st.lists(st.integers(1, 90), min_size=15, max_size=15))
def test_other_observations_and_rewards_moved_onto_them_change_nothing(
    name: str, plans: list[EpisodePlan], lengths: list[int]
) -> None:
    # ``plans`` has rewards on observation tokens; the other batch has them on the turn's last token.
    before, after = inputs_of(plans), inputs_of(with_observations(plans, lengths))
    assert advantages(name, before) == advantages(name, after)


@every_estimator
@few
@given(BATCHES, st.lists(st.integers(1, 40), min_size=15, max_size=15))
def test_the_critics_targets_do_not_see_observations(name: str, plans: list[EpisodePlan], lengths: list[int]) -> None:
    before, after = inputs_of(plans), inputs_of(with_observations(plans, lengths))
    found = [(estimator(name)(inputs).value_targets, inputs) for inputs in (before, after)]
    if "values" not in ESTIMATORS.get(name).needs:
        assert [targets for targets, _ in found] == [None, None]
        return
    first, second = (by_episode(targets, inputs) for targets, inputs in found if targets is not None)
    assert first == second


@every_estimator
@few
@given(BATCHES, st.randoms(use_true_random=False))
def test_the_order_of_the_episodes_does_not_matter(name: str, plans: list[EpisodePlan], dice: random.Random) -> None:
    order = list(range(len(plans)))
    dice.shuffle(order)
    mixed = [plans[number] for number in order]
    shuffled = inputs_of(mixed, lay_out(mixed, order))
    assert advantages(name, shuffled) == close(advantages(name, inputs_of(plans)))


@every_estimator
@few
@given(BATCHES)
def test_padding_changes_nothing(name: str, plans: list[EpisodePlan]) -> None:
    inputs = inputs_of(plans)
    wide = _wider(pad_rows(lay_out(plans), 16))
    found = estimator(name)(inputs_of(plans, wide))
    rows, width = inputs.rewards.shape
    assert torch.equal(found.values[:rows, :width], estimator(name)(inputs).values)
    assert not found.values[rows:].any()
    assert not found.values[:, width:].any()
    assert not found.has_signal[rows:].any()


@every_estimator
@few
@given(BATCHES)
def test_nothing_lies_off_the_loss_mask_and_all_is_finite(name: str, plans: list[EpisodePlan]) -> None:
    inputs = inputs_of(plans)  # the critic's values are NaN at every token of the environment
    found = estimator(name)(inputs)
    assert torch.isfinite(found.values).all()
    assert not found.values[~inputs.action_mask].any()
    assert not found.values[~found.has_signal].any()
    assert found.values.dtype == torch.float32
    assert found.num_groups == len({plan.group for plan in plans if not plan.reason.failed})
    assert 0 <= found.groups_without_spread <= found.num_groups


@every_estimator
@few
@given(BATCHES)
def test_a_failed_episode_is_left_out(name: str, plans: list[EpisodePlan]) -> None:
    failed = EpisodePlan((TurnPlan((1.0,), reward=100.0),), group=plans[0].group, reason=StopReason.TOOL_FAILURE)
    before, after = inputs_of(plans), inputs_of([*plans, failed])
    found = advantages(name, after)
    assert found.pop(len(plans)) == [0.0]
    assert found == advantages(name, before)


@every_estimator
@few
@given(BATCHES)
def test_an_episode_counts_once_however_many_segments_it_has(name: str, plans: list[EpisodePlan]) -> None:
    whole = [replace(plan, turns=tuple(replace(turn, opens_segment=False) for turn in plan.turns)) for plan in plans]
    assert advantages(name, inputs_of(plans)) == advantages(name, inputs_of(whole))


@every_estimator
@few
@given(BATCHES)
def test_rows_of_other_episodes_may_lie_between_an_episodes_segments(name: str, plans: list[EpisodePlan]) -> None:
    inputs = inputs_of(plans)
    rank = [inputs.episode_ids[:row].eq(number).sum().item() for row, number in enumerate(inputs.episode_ids)]
    order = torch.tensor(
        sorted(range(len(rank)), key=lambda row: rank[row])
    )  # all first segments, then all second ones
    mixed = AdvantageInputs(*(getattr(inputs, field)[order] for field in AdvantageInputs.__slots__))
    assert advantages(name, mixed) == close(advantages(name, inputs))


@pytest.mark.parametrize("name", OF_GROUPS)
@few
@given(st.lists(QUARTERS, min_size=1, max_size=3), st.integers(1, 4))
def test_a_group_of_one_or_without_spread_gives_zero(name: str, rewards: list[float], members: int) -> None:
    # The members earned the same in every turn, with different numbers of tokens.
    plans = [
        EpisodePlan(tuple(TurnPlan((0.0,) * (1 + index), 2, reward, turn) for turn, reward in enumerate(rewards)))
        for index in range(members)
    ]
    other = [EpisodePlan((TurnPlan(reward=reward),), group=1) for reward in (0.0, 1.0)]
    found = estimator(name)(inputs_of([*plans, *other]))
    assert not found.values[:members].any()
    assert found.has_signal.tolist() == [False] * members + [True, True]
    assert (found.num_groups, found.groups_without_spread) == (2, 1)


@pytest.mark.parametrize("name", ["reinforce_pp", "remax"])
def test_a_batch_that_cannot_teach_gives_zero_without_a_group(name: str) -> None:
    found = ESTIMATORS.get(name)(inputs_of([EpisodePlan((TurnPlan(reward=0.5),), baseline=0.5)] * 3))
    assert not found.values.any()
    assert not found.has_signal.any()


@every_estimator
@few
@given(BATCHES, QUARTERS)
def test_truncation_differs_from_termination_by_the_bootstrap_alone(
    name: str, plans: list[EpisodePlan], last_value: float
) -> None:
    plan = replace(plans[0], last_value=last_value)
    ended, cut = (inputs_of([replace(plan, reason=r)]) for r in (StopReason.ANSWERED, StopReason.MAX_TURNS))
    options = {**DECAYING.get(name, {}), **({"whiten": False} if name.startswith("gae") else {})}
    found = [by_episode(make_estimator(name, options)(inputs).values, inputs)[0] for inputs in (ended, cut)]
    assert found[1] == pytest.approx([a + b for a, b in zip(found[0], _bootstrap(name, plan), strict=True)], abs=1e-5)


@every_estimator
def test_what_an_estimator_needs_is_asked_for_by_name(name: str) -> None:
    inputs = inputs_of([EpisodePlan((TurnPlan(),))])
    for need in ESTIMATORS.get(name).needs:
        with pytest.raises(ValueError, match=f"needs AdvantageInputs.{need}, which is None"):
            ESTIMATORS.get(name)(replace(inputs, **{need: None}))
    unneeded = {"values", "terminated", "last_values", "baselines", "anchor_ids"} - ESTIMATORS.get(name).needs
    assert advantages(name, replace(inputs, **dict.fromkeys(unneeded))) == advantages(name, inputs)


@every_estimator
def test_sums_are_taken_in_float64(name: str) -> None:
    # 2^24 + 1 has no float32; the second episode earned 1 more than the first, in another turn.
    big = 2.0**24
    plans = [EpisodePlan((TurnPlan(reward=more), TurnPlan(reward=big)), baseline=big) for more in (0.0, 1.0)]
    found = by_episode(make_estimator(name)(inputs_of(plans)).values, inputs_of(plans))
    assert found[1][0] > found[0][0]


@every_estimator
def test_a_reward_off_the_action_tokens_is_an_error(name: str) -> None:
    inputs = inputs_of([EpisodePlan((TurnPlan(observation=2),))])
    with pytest.raises(ValueError, match="place_rewards"):
        ESTIMATORS.get(name)(replace(inputs, rewards=torch.tensor([[0.0, 1.0, 0.0]])))


@every_estimator
def test_a_batch_in_which_all_failed_or_nobody_wrote_gives_nothing(name: str) -> None:
    failed = EpisodePlan((TurnPlan(reward=1.0),), reason=StopReason.WALL_CLOCK)
    found = ESTIMATORS.get(name)(inputs_of([failed, failed]))
    assert not found.values.any()
    assert found.num_groups == 0
    silent = replace(inputs_of([EpisodePlan((TurnPlan(),))]), action_mask=torch.zeros(1, 2, dtype=torch.bool))
    assert not ESTIMATORS.get(name)(silent).values.any()


@every_estimator
@few
@given(BATCHES)
def test_without_the_loss_mask_an_observation_shares_its_turns_last_advantage(
    name: str, plans: list[EpisodePlan]
) -> None:
    inputs = inputs_of(plans, on_all_tokens=True)
    found = estimator(name)(inputs).values
    for row in range(len(found)):
        latest = 0.0
        for value, sampled, counts in zip(found[row], inputs.action_mask[row], inputs.loss_mask[row], strict=True):
            latest = value.item() if sampled else latest
            assert value.item() == (latest if counts else 0.0)


def _bootstrap(name: str, plan: EpisodePlan) -> Sequence[float]:
    """What the critic's value of the final observation adds to each token's advantage."""
    count = sum(len(turn.values) for turn in plan.turns)
    made = estimator(name)
    if isinstance(made, TokenGae):
        within = between = (made.gamma, made.lam)
    elif isinstance(made, BiLevelGae):
        within, between = (made.token_gamma, made.token_lam), (made.turn_gamma, made.turn_lam)
    elif isinstance(made, TurnGae):
        within, between = (1.0, 1.0), (made.gamma, made.lam)
    else:
        return [0.0] * count
    share, shares = between[0] * plan.last_value, []
    for turn in reversed(plan.turns):
        for place in range(len(turn.values)):
            if shares:
                gamma, lam = between if place == 0 else within
                share *= gamma * lam
            shares.append(share)
    return shares[::-1]


def _wider(rows: RowBatch) -> RowBatch:
    """The same rows with seven more columns of padding."""
    grown = {}
    for field in RowBatch.__slots__:
        tensor = getattr(rows, field)
        is_wide = tensor.dim() == 2 and not field.startswith("prompt")
        grown[field] = torch.nn.functional.pad(tensor, (0, 7), value=-1 * (field == "turn_ids")) if is_wide else tensor
    return RowBatch(**grown)
