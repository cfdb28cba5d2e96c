"""Against references written as plain loops over plans: no tensors, no masks, no padding, no segments."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence

import pytest
from hypothesis import given, settings

from agent_trainer.estimators import make_estimator
from tests.agent_trainer.estimators.plans import BATCHES, EpisodePlan, by_episode, inputs_of, per_turn

few = settings(max_examples=20, deadline=None)
Scores = dict[tuple[int, int], float]  # by episode and turn


def close(expected: Sequence[float]) -> object:
    return pytest.approx(list(expected), abs=2e-5)


def valid(plans: Sequence[EpisodePlan]) -> list[int]:
    return [number for number, plan in enumerate(plans) if not plan.reason.failed]


def compared(scores: Scores, label: Callable[[int, int], object], divide: bool) -> Scores:
    """Each score minus the mean of those with its label, perhaps over their standard deviation."""
    result = {}
    for key, score in scores.items():
        others = [value for other, value in scores.items() if label(*other) == label(*key)]
        if len(others) < 2 or max(others) - min(others) < 1e-6:
            result[key] = 0.0
        else:
            result[key] = (score - statistics.fmean(others)) / (statistics.stdev(others) if divide else 1.0)
    return result


def to_go(plan: EpisodePlan, turn: int, gamma: float) -> float:
    return sum(gamma**ahead * later.reward for ahead, later in enumerate(plan.turns[turn:]))


def turn_scores(plans: Sequence[EpisodePlan], gamma: float) -> Scores:
    return {(n, j): to_go(plans[n], j, gamma) for n in valid(plans) for j in range(len(plans[n].turns))}


def returns_of(plans: Sequence[EpisodePlan]) -> Scores:
    return {(number, 0): plans[number].total for number in valid(plans)}


def spread_over_tokens(plans: Sequence[EpisodePlan], scores: Scores) -> dict[int, list[float]]:
    """An episode's number on each of its tokens; 0 where the episode failed."""
    return {
        number: [scores.get((number, 0), 0.0)] * sum(len(turn.values) for turn in plan.turns)
        for number, plan in enumerate(plans)
    }


def whitened(by_number: dict[int, list[float]], keep: Sequence[int]) -> dict[int, list[float]]:
    flat = [value for number in keep for value in by_number[number]]
    if len(flat) < 2:
        return by_number
    mean, spread = statistics.fmean(flat), max(flat) - min(flat) > 1e-6
    deviation = statistics.stdev(flat) if spread else 1.0
    return {
        number: [(value - mean) / deviation if number in keep and spread else 0.0 for value in values]
        for number, values in by_number.items()
    }


def check(name: str, options: dict[str, float], plans: list[EpisodePlan], expected: dict[int, list[float]]) -> None:
    inputs = inputs_of(plans)
    found = by_episode(make_estimator(name, options)(inputs).values, inputs)
    assert found == {number: close(values) for number, values in expected.items()}


@pytest.mark.parametrize("divide", [True, False])
@few
@given(BATCHES)
def test_grpo(divide: bool, plans: list[EpisodePlan]) -> None:
    scores = compared(returns_of(plans), lambda number, _: plans[number].group, divide)
    check("grpo", {"divide_by_std": divide}, plans, spread_over_tokens(plans, scores))


@few
@given(BATCHES)
def test_rloo(plans: list[EpisodePlan]) -> None:
    scores = {}
    for number in valid(plans):
        others = [plans[n].total for n in valid(plans) if n != number and plans[n].group == plans[number].group]
        scores[number, 0] = plans[number].total - statistics.fmean(others) if others else 0.0
    check("rloo", {}, plans, spread_over_tokens(plans, scores))


@few
@given(BATCHES)
def test_reinforce_pp(plans: list[EpisodePlan]) -> None:
    returns: dict[int, list[float]] = {}
    for number, plan in enumerate(plans):
        rewards = [r for turn in plan.turns for r in [*[0.0] * (len(turn.values) - 1), turn.reward]]
        returns[number] = [sum(0.5**n * r for n, r in enumerate(rewards[k:])) for k in range(len(rewards))]
        if plan.reason.failed:
            returns[number] = [0.0] * len(rewards)
    check("reinforce_pp", {"gamma": 0.5}, plans, whitened(returns, valid(plans)))


@few
@given(BATCHES)
def test_reinforce_pp_baseline(plans: list[EpisodePlan]) -> None:
    scores = compared(returns_of(plans), lambda number, _: plans[number].group, divide=False)
    teaching = {plans[number].group for (number, _), score in scores.items() if score}
    keep = [number for number in valid(plans) if plans[number].group in teaching]
    check("reinforce_pp_baseline", {}, plans, whitened(spread_over_tokens(plans, scores), keep))


@few
@given(BATCHES)
def test_remax(plans: list[EpisodePlan]) -> None:
    scores = {(number, 0): plans[number].total - plans[number].baseline for number in valid(plans)}
    check("remax", {}, plans, spread_over_tokens(plans, scores))


@pytest.mark.parametrize("divide", [True, False])
@few
@given(BATCHES)
def test_turn_grpo(divide: bool, plans: list[EpisodePlan]) -> None:
    scores = compared(turn_scores(plans, 0.5), lambda number, turn: (plans[number].group, turn), divide)
    inputs = inputs_of(plans)
    found = per_turn(make_estimator("turn_grpo", {"gamma": 0.5, "divide_by_std": divide})(inputs), inputs)
    assert found == {n: close(scores.get((n, j), 0.0) for j in range(len(p.turns))) for n, p in enumerate(plans)}


@pytest.mark.parametrize("divide", [True, False])
@few
@given(BATCHES)
def test_gigpo(divide: bool, plans: list[EpisodePlan]) -> None:
    episodes = compared(returns_of(plans), lambda number, _: plans[number].group, divide)
    turns = compared(turn_scores(plans, 0.5), lambda n, turn: (plans[n].group, plans[n].turns[turn].anchor), divide)
    inputs = inputs_of(plans)
    options = {"gamma": 0.5, "turn_weight": 0.5, "divide_by_std": divide}
    found = per_turn(make_estimator("gigpo", options)(inputs), inputs)
    assert found == {
        n: close(episodes.get((n, 0), 0.0) + 0.5 * turns.get((n, j), 0.0) for j in range(len(plan.turns)))
        for n, plan in enumerate(plans)
    }


def gae_of(plan: EpisodePlan, within: tuple[float, float], between: tuple[float, float]) -> list[float]:
    """The definition: A_k = sum over later tokens of their d, times the products of gamma lambda between."""
    steps = [
        (value, turn.reward if place == len(turn.values) - 1 else 0.0, place == len(turn.values) - 1)
        for turn in plan.turns
        for place, value in enumerate(turn.values)
    ]
    bootstrap = 0.0 if plan.reason.terminated else plan.last_value
    advantages = []
    for k in range(len(steps)):
        total, weight = 0.0, 1.0
        for ahead in range(k, len(steps)):
            value, reward, ends = steps[ahead]
            gamma, lam = between if ends else within
            following = steps[ahead + 1][0] if ahead + 1 < len(steps) else bootstrap
            total += weight * (reward + gamma * following - value)
            weight *= gamma * lam
        advantages.append(total)
    return advantages


def turn_gae_of(plan: EpisodePlan, gamma: float, lam: float) -> list[float]:
    """The textbook form, a turn as one action."""
    values = [turn.values[0] for turn in plan.turns]
    after = [*values[1:], 0.0 if plan.reason.terminated else plan.last_value]
    advantages, carry = [], 0.0
    for j in reversed(range(len(values))):
        carry = plan.turns[j].reward + gamma * after[j] - values[j] + gamma * lam * carry
        advantages.insert(0, carry)
    return advantages


@few
@given(BATCHES)
def test_gae_by_token_and_on_both_levels(plans: list[EpisodePlan]) -> None:
    tokens = {n: gae_of(plan, (0.5, 0.75), (0.5, 0.75)) for n, plan in enumerate(plans)}
    levels = {n: gae_of(plan, (0.75, 0.5), (0.5, 0.25)) for n, plan in enumerate(plans)}
    for number, plan in enumerate(plans):
        if plan.reason.failed:
            tokens[number] = levels[number] = [0.0] * len(tokens[number])
    check("gae", {"gamma": 0.5, "lam": 0.75, "whiten": False}, plans, tokens)
    check("gae", {"gamma": 0.5, "lam": 0.75}, plans, whitened(tokens, valid(plans)))
    options = {"token_gamma": 0.75, "token_lam": 0.5, "turn_gamma": 0.5, "turn_lam": 0.25}
    check("gae_bilevel", {**options, "whiten": False}, plans, levels)
    check("gae_bilevel", options, plans, whitened(levels, valid(plans)))


@few
@given(BATCHES)
def test_gae_by_turn(plans: list[EpisodePlan]) -> None:
    expected = {
        n: [0.0] * len(plan.turns) if plan.reason.failed else turn_gae_of(plan, 0.5, 0.75)
        for n, plan in enumerate(plans)
    }
    inputs = inputs_of(plans)
    plain = make_estimator("gae_turn", {"gamma": 0.5, "lam": 0.75, "whiten": False})(inputs)
    white = make_estimator("gae_turn", {"gamma": 0.5, "lam": 0.75})(inputs)
    assert per_turn(plain, inputs) == {number: close(values) for number, values in expected.items()}
    scaled = whitened(expected, valid(plans))
    assert per_turn(white, inputs) == {number: close(values) for number, values in scaled.items()}
