from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from agent_trainer.estimators import ESTIMATORS, OverlongPenalised
from agent_trainer.estimators.overlong import overlong_penalty
from tests.agent_trainer.estimators.plans import EpisodePlan, TurnPlan, by_episode, inputs_of, per_turn, three_turns

SHORT = EpisodePlan((TurnPlan((0.0,) * 4, 300, 1.0),))


def test_the_penalty_grows_over_the_buffer() -> None:
    # 100 tokens at most, a buffer of 40: nothing up to 60, -1/4 at 70, -1/2 at 80, -1 from 100 on.
    lengths = torch.tensor([0, 59, 60, 70, 80, 100, 500])
    assert overlong_penalty(lengths, 100, 40).tolist() == [0, 0, 0, -0.25, -0.5, -1, -1]


def test_only_the_policys_own_tokens_count_as_length() -> None:
    # 8 tokens of the policy's own in three turns, 4 in one. From 6 to 10 the penalty grows: the first loses 1/2.
    # Returns 5/4 - 1/2 and 1: mean 7/8. Observations of hundreds of tokens make no difference.
    inputs = inputs_of([three_turns(), SHORT])
    found = OverlongPenalised(ESTIMATORS.get("grpo_no_std"), max_tokens=10, buffer_tokens=4)(inputs)
    assert by_episode(found.values, inputs) == {0: [-0.125] * 8, 1: [0.125] * 4}


def test_the_penalty_lies_on_an_episodes_last_token_over_all_its_segments() -> None:
    # The reward-to-go of every turn holds it: (1/4, 0, 1 - 1/2) against (1,), compared in the first turn alone.
    plan = three_turns()
    cut = replace(plan, turns=(plan.turns[0], *(replace(turn, opens_segment=True) for turn in plan.turns[1:])))
    estimator = OverlongPenalised(ESTIMATORS.get("turn_grpo"), max_tokens=10, buffer_tokens=4)
    whole, parts = (per_turn(estimator(i), i) for i in (inputs_of([plan, SHORT]), inputs_of([cut, SHORT])))
    assert whole == parts
    assert whole[0][0] == -whole[1][0] == pytest.approx(-(0.5**0.5))


def test_every_token_of_an_episode_is_before_the_penalty() -> None:
    # Both tokens' reward-to-go is -1, so that whitening leaves nothing.
    inputs = inputs_of([EpisodePlan((TurnPlan((0.0, 0.0), 7),))])
    found = OverlongPenalised(ESTIMATORS.get("reinforce_pp"), max_tokens=2, buffer_tokens=1)(inputs)
    assert not found.values.any()


def test_a_group_that_differs_in_length_alone_has_spread() -> None:
    inputs = inputs_of([SHORT, replace(SHORT, turns=(TurnPlan((0.0,) * 9, 1, 1.0),))])
    assert not ESTIMATORS.get("rloo")(inputs).has_signal.any()
    assert OverlongPenalised(ESTIMATORS.get("rloo"), 10, 4)(inputs).has_signal.all()


def test_what_it_needs_is_what_its_inner_estimator_needs() -> None:
    assert OverlongPenalised(ESTIMATORS.get("remax"), 10, 4).needs == {"baselines"}


@pytest.mark.parametrize("buffer", [0, 101])
def test_a_buffer_out_of_range_is_an_error(buffer: int) -> None:
    with pytest.raises(ValueError, match="1 to 100 tokens"):
        OverlongPenalised(ESTIMATORS.get("grpo"), 100, buffer)
