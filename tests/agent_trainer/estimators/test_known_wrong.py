"""What is wrong in well-known systems, each beside what this project does."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from agent_envs.types import StopReason
from agent_trainer.estimators import ESTIMATORS, make_estimator
from tests.agent_trainer.estimators.plans import EpisodePlan, TurnPlan, by_episode, inputs_of, per_turn, three_turns

SUCCESS = three_turns((0.0, 0.0, 1.0), (0.0, 0.0, 0.0))
FAILURE = three_turns((0.0, 0.0, 0.0), (0.0, 0.0, 0.0))


def test_reinforce_pp_does_not_reset_the_return_at_an_observation() -> None:
    # verl 2337: the running return is multiplied by the mask, so that only the last turn gets credit.
    inputs = inputs_of([SUCCESS, FAILURE])
    wrong, carry = torch.zeros(inputs.rewards.shape[1]), 0.0
    for place in reversed(range(len(wrong))):
        carry = (carry + inputs.rewards[0, place].item()) * inputs.action_mask[0, place].item()
        wrong[place] = carry
    assert wrong[inputs.action_mask[0]].tolist() == [0, 0, 0, 0, 0, 1, 1, 1]
    right = per_turn(ESTIMATORS.get("reinforce_pp")(inputs), inputs)
    assert right[0][0] == right[0][1] == right[0][2] > 0 > right[1][0]


@pytest.mark.parametrize("name", list(ESTIMATORS))
def test_a_reward_that_a_tool_event_puts_on_an_observation_is_not_lost(name: str) -> None:
    # verl: GAE, REINFORCE++ and ReMax drop a reward that sits on a masked token.
    folded = replace(SUCCESS, turns=(replace(SUCCESS.turns[0], reward=2.0), *SUCCESS.turns[1:]))
    emitted = replace(SUCCESS, turns=(replace(SUCCESS.turns[0], reward=2.0, reward_at=150), *SUCCESS.turns[1:]))
    inputs = inputs_of([emitted, FAILURE])
    found = ESTIMATORS.get(name)(inputs)
    assert torch.equal(found.values, ESTIMATORS.get(name)(inputs_of([folded, FAILURE])).values)
    assert inputs.rewards.sum() == 3.0
    assert found.values[0, 0] > found.values[1, 0]


def test_gae_does_not_decay_through_an_observation() -> None:
    # SkyRL, slime: with lambda = 0.95 and 197 tokens of the environment, the first action gets 0.95^202 = 3e-5 of a
    # reward five action tokens later, in place of 0.95^5 = 0.77.
    plan = EpisodePlan((TurnPlan((0.0,) * 3, 197), TurnPlan((0.0,) * 3, 0, 1.0)))
    inputs = inputs_of([plan])
    assert inputs.values is not None
    inputs = replace(inputs, values=inputs.values.nan_to_num(0.0))
    first = {}
    for mask in (True, False):
        estimator = make_estimator("gae", {"lam": 0.95, "whiten": False, "advantage_mask": mask})
        first[mask] = estimator(inputs).values[0, 0].item()
    assert first[True] == pytest.approx(0.95**5, rel=1e-6) == pytest.approx(0.77, abs=0.005)
    assert first[False] == pytest.approx(0.95**202, rel=1e-4) == pytest.approx(3e-5, abs=0.5e-5)


@pytest.mark.parametrize("name", ["gae_turn", "gae_bilevel", "turn_grpo", "gigpo"])
def test_turns_are_found_without_their_rewards(name: str) -> None:
    # RAGEN finds turns by non-zero rewards, so that an episode that earned nothing crashes.
    inputs = inputs_of([FAILURE, replace(FAILURE, reason=StopReason.MAX_TURNS, last_value=1.0)])
    values = per_turn(ESTIMATORS.get(name)(inputs), inputs)
    assert [len(turns) for turns in values.values()] == [3, 3]


def test_an_advantage_of_a_turn_lands_on_that_turns_tokens() -> None:
    # SkyRL 1507: advantages per step, spread with the wrong mask.
    inputs = inputs_of([SUCCESS, replace(FAILURE, turns=FAILURE.turns[:2])])
    found = make_estimator("turn_grpo", {"divide_by_std": False, "gamma": 0.5})(inputs)
    tokens = by_episode(found.values, inputs)
    assert tokens == {0: [0.125] * 3 + [0.25] * 2 + [0.0] * 3, 1: [-0.125] * 3 + [-0.25] * 2}


def test_each_turns_own_reward_counts() -> None:
    # SkyRL 201, verl 3525: rewards of turns or tools are lost; only the last one counts.
    inputs = inputs_of([three_turns((0.5, 0.25, 0.0)), three_turns((0.0, 0.0, 0.75)), FAILURE])
    found = by_episode(ESTIMATORS.get("rloo")(inputs).values, inputs)
    assert found[0] == found[1] == [0.375] * 8


def test_a_group_of_one_does_not_get_its_raw_score() -> None:
    # Agent-R1, and systems whose group keys leave every member alone (rllm 924).
    for name in ("grpo", "rloo", "reinforce_pp_baseline"):
        assert not ESTIMATORS.get(name)(inputs_of([SUCCESS])).values.any()


def test_a_truncated_episode_is_not_a_terminal_one() -> None:
    # Agent-R1, ROLL 123: no bootstrap. Here the critic promises 1 of the final observation.
    truncated = replace(FAILURE, reason=StopReason.MAX_TURNS, last_value=1.0)
    for name in ("gae", "gae_turn", "gae_bilevel"):
        inputs = inputs_of([truncated, replace(FAILURE, last_value=1.0)])
        found = make_estimator(name, {"whiten": False})(inputs)
        assert by_episode(found.values, inputs) == {0: [1.0] * 8, 1: [0.0] * 8}


def test_a_penalty_on_the_environments_tokens_cannot_enter_the_return() -> None:
    # slime 1370: the KL of tool tokens enters the return. Rewards off the action tokens are refused.
    inputs = inputs_of([SUCCESS, FAILURE])
    with pytest.raises(ValueError, match="off the action tokens"):
        ESTIMATORS.get("reinforce_pp")(replace(inputs, rewards=inputs.rewards - 0.01))
