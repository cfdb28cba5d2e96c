"""Numbers worked out by hand: an episode of turns of 3, 2 and 3 tokens that earn 1/4, 0 and 1.

Its observations have 197 and 1 tokens, and the critic says 1/2, 1/4 and 1/2 on the turns' tokens.
"""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from agent_envs.types import StopReason
from agent_trainer.estimators import ESTIMATORS, make_estimator
from tests.agent_trainer.estimators.plans import (
    EpisodePlan,
    TurnPlan,
    by_episode,
    inputs_of,
    per_turn,
    three_turns,
)

NOTHING = EpisodePlan((TurnPlan((0.0,)),))  # one token, earns 0


def turns(*rewards: float, anchors: tuple[int, ...] = ()) -> EpisodePlan:
    """One token a turn."""
    numbers = anchors or range(len(rewards))
    pairs = zip(rewards, numbers, strict=True)
    return EpisodePlan(tuple(TurnPlan((0.0,), 5, reward, anchor) for reward, anchor in pairs))


def test_grpo() -> None:
    # Returns 5/4 and 0: mean 5/8, deviations +-5/8, standard deviation 5/8 * sqrt(2).
    inputs = inputs_of([three_turns(), NOTHING])
    scaled, plain = ESTIMATORS.get("grpo")(inputs), ESTIMATORS.get("dr_grpo")(inputs)
    assert by_episode(scaled.values, inputs) == {
        0: pytest.approx([math.sqrt(0.5)] * 8),
        1: pytest.approx([-math.sqrt(0.5)]),
    }
    assert by_episode(plain.values, inputs) == {0: [0.625] * 8, 1: [-0.625]}


def test_rloo() -> None:
    # Returns 5/4, 0, 1/4. The means of the others: 1/8, 3/4, 5/8.
    inputs = inputs_of([three_turns(), NOTHING, turns(0.25)])
    found = by_episode(ESTIMATORS.get("rloo")(inputs).values, inputs)
    assert found == {0: [1.125] * 8, 1: [-0.75], 2: [-0.375]}


def test_reinforce_pp() -> None:
    # Rewards-to-go 5/4 on 3 tokens, 1 on 5 tokens, 0 on one: mean 35/36. In units of 1/36 the deviations are 10, 1 and
    # -35, their squares sum to 3 * 100 + 5 + 1225 = 1530, the variance is 1530 / 8.
    inputs = inputs_of([three_turns(), NOTHING])
    found = by_episode(ESTIMATORS.get("reinforce_pp")(inputs).values, inputs)
    std = math.sqrt(1530 / 8)
    assert found == {0: pytest.approx([10 / std] * 3 + [1 / std] * 5), 1: pytest.approx([-35 / std])}


def test_reinforce_pp_with_a_discount() -> None:
    # gamma = 1/2, over action tokens only: 1 at the last of the 8 tokens, 1/2, 1/4 | 1/8, 1/16 | 1/32 + 1/4 = 9/32,
    # 9/64, 9/128. In 128ths, from the first:
    inputs = inputs_of([three_turns()])
    found = by_episode(make_estimator("reinforce_pp", {"gamma": 0.5})(inputs).values, inputs)[0]
    returns = [9, 18, 36, 8, 16, 32, 64, 128]
    mean = sum(returns) / 8
    std = math.sqrt(sum((value - mean) ** 2 for value in returns) / 7)
    assert found == pytest.approx([(value - mean) / std for value in returns])


def test_reinforce_pp_counts_a_penalty_per_token_for_that_token_and_those_before_it() -> None:
    # -beta k1 inside the rewards, in 8ths: -1 on each of 4 tokens, and 8 at the end. To go: 4, 5, 6, 7 of them.
    one_token_turns = EpisodePlan(tuple(TurnPlan((0.0,), 30, reward) for reward in (-0.125, -0.125, -0.125, 0.875)))
    inputs = inputs_of([one_token_turns])
    found = by_episode(ESTIMATORS.get("reinforce_pp")(inputs).values, inputs)[0]
    std = math.sqrt((2.25 + 0.25 + 0.25 + 2.25) / 3)
    assert found == pytest.approx([-1.5 / std, -0.5 / std, 0.5 / std, 1.5 / std])


def test_reinforce_pp_with_the_groups_baseline() -> None:
    # Returns 5/4 and 0: +-5/8 after the baseline. On 8 tokens and 1 token, in units of 5/8: mean 7/9, deviations 2/9
    # and -16/9, squares sum to (8 * 4 + 256) / 81 = 288/81, variance 36/81, standard deviation 6/9.
    inputs = inputs_of([three_turns(), NOTHING])
    found = by_episode(ESTIMATORS.get("reinforce_pp_baseline")(inputs).values, inputs)
    assert found == {0: pytest.approx([1 / 3] * 8), 1: pytest.approx([-8 / 3])}


def test_remax() -> None:
    # The greedy episode earned 1.
    inputs = inputs_of([replace(three_turns(), baseline=1.0), replace(NOTHING, baseline=1.0)])
    found = by_episode(ESTIMATORS.get("remax")(inputs).values, inputs)
    assert found == {0: [0.25] * 8, 1: [-1.0]}


def test_remax_leaves_out_a_group_whose_greedy_episode_failed() -> None:
    plans = [replace(three_turns(), baseline=math.nan), replace(three_turns(group=1), baseline=0.0)]
    found = ESTIMATORS.get("remax")(inputs_of(plans))
    assert found.has_signal.tolist() == [False, True]
    assert not found.values[0].any()
    assert found.groups_without_spread == 1


def test_turn_grpo() -> None:
    # Rewards (1/4, 0, 1) and (1/4, 0). To go with gamma = 1: (5/4, 1, 1) and (1/4, 0); means 3/4 and 1/2. Nobody else
    # has a third turn.
    inputs = inputs_of([three_turns(), turns(0.25, 0.0)])
    plain = make_estimator("turn_grpo", {"divide_by_std": False})(inputs)
    assert per_turn(plain, inputs) == {0: [0.5, 0.5, 0.0], 1: [-0.5, -0.5]}
    # gamma = 1/2: (1/2, 1/2, 1) and (1/4, 0); means 3/8 and 1/4.
    discounted = make_estimator("turn_grpo", {"divide_by_std": False, "gamma": 0.5})(inputs)
    assert per_turn(discounted, inputs) == {0: [0.125, 0.25, 0.0], 1: [-0.125, -0.25]}
    # Two numbers d apart have the standard deviation d / sqrt(2), so that +-d/2 becomes +-1/sqrt(2).
    half = math.sqrt(0.5)
    scaled = per_turn(ESTIMATORS.get("turn_grpo")(inputs), inputs)
    assert scaled == {0: pytest.approx([half, half, 0.0]), 1: pytest.approx([-half, -half])}


def test_gigpo() -> None:
    # Returns 5/4 and 1/4: A_E = +-1/2. To go with gamma = 1/2: (1/2, 1/2, 1) and (1/4, 0). State 7: 1/2 and 1/4, so
    # +-1/8. State 9: 1 and 0, so +-1/2. State 8 was visited once. With w = 2: 1/2 + 1/4, 1/2, 1/2 + 1.
    first = three_turns()
    numbered = tuple(replace(turn, anchor=anchor) for turn, anchor in zip(first.turns, (7, 8, 9), strict=True))
    inputs = inputs_of([replace(first, turns=numbered), turns(0.25, 0.0, anchors=(7, 9))])
    found = make_estimator("gigpo", {"gamma": 0.5, "turn_weight": 2.0, "divide_by_std": False})(inputs)
    assert per_turn(found, inputs) == {0: [0.75, 0.5, 1.5], 1: [-0.75, -1.5]}


def test_gigpo_compares_states_within_a_group_only() -> None:
    plans = [turns(1.0, anchors=(3,)), replace(turns(0.0, anchors=(3,)), group=1)]
    assert not ESTIMATORS.get("gigpo")(inputs_of(plans)).values.any()


def test_gae_by_token() -> None:
    # gamma = 1, lambda = 1/2. d = (0, 0, 1/4 + 1/4 - 1/2 = 0 | 0, 1/2 - 1/4 = 1/4 | 0, 0, 1 - 1/2 = 1/2), and from the
    # end: 1/2, 1/4, 1/8 | 1/4 + 1/16 = 5/16, 5/32 | 5/64, 5/128, 5/256. The target is A + V.
    inputs = inputs_of([three_turns()])
    found = make_estimator("gae", {"lam": 0.5, "whiten": False})(inputs)
    expected = [5 / 256, 5 / 128, 5 / 64, 5 / 32, 5 / 16, 1 / 8, 1 / 4, 1 / 2]
    values = [0.5] * 3 + [0.25] * 2 + [0.5] * 3
    assert by_episode(found.values, inputs)[0] == expected
    assert found.value_targets is not None
    assert by_episode(found.value_targets, inputs)[0] == [a + v for a, v in zip(expected, values, strict=True)]
    assert found.value_mask is not None
    assert found.value_mask.equal(inputs.action_mask)


def test_gae_by_token_of_a_truncated_episode() -> None:
    # The critic says 1/2 of the final observation: d_8 = 1 + 1/2 - 1/2 = 1. From the end: 1, 1/2, 1/4 | 3/8, 3/16 | ...
    inputs = inputs_of([replace(three_turns(), reason=StopReason.MAX_TURNS, last_value=0.5)])
    found = make_estimator("gae", {"lam": 0.5, "whiten": False})(inputs)
    assert by_episode(found.values, inputs)[0] == [3 / 128, 3 / 64, 3 / 32, 3 / 16, 3 / 8, 1 / 4, 1 / 2, 1]


@pytest.mark.parametrize("name", ["gae", "gae_turn", "gae_bilevel"])
def test_where_the_policy_learns_nothing_the_critic_still_does(name: str) -> None:
    # Both episodes earned 1, of which the critic knew nothing: after whitening nothing is left for the policy.
    inputs = inputs_of([turns(1.0), turns(1.0)])
    found = ESTIMATORS.get(name)(inputs)
    assert not found.values.any()
    assert found.has_signal.all()
    assert found.groups_without_spread == 0
    assert found.value_targets is not None
    assert found.value_targets[inputs.action_mask].tolist() == [1.0, 1.0]


def test_gae_by_turn() -> None:
    # gamma = lambda = 1/2, rewards (1/4, 0, 1), values (1/2, 1/4, 1/2). A_3 = 1 - 1/2 = 1/2. d_2 = 1/2 * 1/2 - 1/4 = 0,
    # A_2 = 1/4 * 1/2 = 1/8. d_1 = 1/4 + 1/2 * 1/4 - 1/2 = -1/8, A_1 = -1/8 + 1/4 * 1/8 = -3/32.
    plan = three_turns()
    # Values within a turn are never looked at: only those of its first token are.
    noisy = tuple(replace(turn, values=(turn.values[0], 9.0, -7.0)[: len(turn.values)]) for turn in plan.turns)
    inputs = inputs_of([replace(plan, turns=noisy)])
    found = make_estimator("gae_turn", {"gamma": 0.5, "lam": 0.5, "whiten": False})(inputs)
    assert per_turn(found, inputs) == {0: [-3 / 32, 1 / 8, 1 / 2]}
    # One target per turn, at its first token: A + V.
    assert found.value_targets is not None
    assert found.value_mask is not None
    assert found.value_targets[found.value_mask].tolist() == [13 / 32, 3 / 8, 1]
    first_of_turns = [True, False, False, True, False, True, False, False]
    assert found.value_mask[inputs.action_mask].tolist() == first_of_turns


def test_gae_by_turn_whitens_over_turns_however_long_they_are() -> None:
    # With values of 0 and gamma = lambda = 1 the turns get 5/4, 1, 1: mean 13/12, deviations (2, -1, -1) / 12, variance
    # (4 + 1 + 1) / 144 / 2 = 3 / 144, standard deviation sqrt(3) / 12.
    inputs = inputs_of([three_turns(values=(0, 0, 0))])
    found = per_turn(ESTIMATORS.get("gae_turn")(inputs), inputs)
    assert found == {0: pytest.approx([2 / math.sqrt(3), -1 / math.sqrt(3), -1 / math.sqrt(3)])}


def test_gae_on_both_levels() -> None:
    # Within a turn gamma = 1, lambda = 1/2; between turns gamma = 1/2, lambda = 1. From the end: 1/2, 1/4, 1/8.
    # d_5 = 1/2 * 1/2 - 1/4 = 0, A_5 = 1/2 * 1/8 = 1/16, A_4 = 1/32. d_3 = 1/4 + 1/2 * 1/4 - 1/2 = -1/8,
    # A_3 = -1/8 + 1/2 * 1/32 = -7/64, A_2 = -7/128, A_1 = -7/256.
    inputs = inputs_of([three_turns()])
    found = make_estimator("gae_bilevel", {"token_lam": 0.5, "turn_gamma": 0.5, "whiten": False})(inputs)
    expected = [-7 / 256, -7 / 128, -7 / 64, 1 / 32, 1 / 16, 1 / 8, 1 / 4, 1 / 2]
    assert by_episode(found.values, inputs)[0] == expected


def test_gae_on_both_levels_discounts_the_bootstrap_as_a_turns_end() -> None:
    plan = EpisodePlan((TurnPlan((0.0,), 3),), reason=StopReason.CONTEXT, last_value=1.0)
    inputs = inputs_of([plan])
    found = make_estimator("gae_bilevel", {"turn_gamma": 0.25, "whiten": False})(inputs)
    assert by_episode(found.values, inputs)[0] == [0.25]


def test_gae_without_the_advantage_mask_runs_through_observations() -> None:
    # One token, two of the environment, one token that earns 1; gamma = 1, lambda = 1/2, every value 0: the first token
    # gets (1/2)^3 instead of 1/2.
    plans = [EpisodePlan((TurnPlan((0.0,), 2), TurnPlan((0.0,), 0, 1.0)))]
    inputs = inputs_of(plans)
    assert inputs.values is not None
    inputs = replace(inputs, values=inputs.values.nan_to_num(0.0))
    right, wrong = (
        make_estimator("gae", {"lam": 0.5, "whiten": False, "advantage_mask": mask})(inputs) for mask in (True, False)
    )
    assert by_episode(right.values, inputs)[0] == [0.5, 1.0]
    assert by_episode(wrong.values, inputs)[0] == [0.125, 1.0]
    # With the loss mask, the critic is still trained at the policy's tokens only; without it, everywhere.
    assert wrong.value_mask is not None
    assert wrong.value_mask.equal(inputs.action_mask)
    both = make_estimator("gae", {"lam": 0.5, "whiten": False, "advantage_mask": False})(
        replace(inputs, loss_mask=inputs.turn_ids >= 0)
    )
    assert both.values.tolist() == [[0.125, 0.25, 0.5, 1.0]]
    assert both.value_mask is not None
    assert both.value_mask.all()
