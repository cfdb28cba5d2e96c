"""Rewards as a whole: the return is the expression over the episode, whenever it is paid; nothing is paid twice."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

import pytest

from agent_envs.errors import ConfigError, UnknownNameError
from agent_envs.rewards import COMMON_PARTS, QA_REWARDS, RewardCatalogue, end_part, turn_part
from agent_envs.rewards.expression import parse_expression
from agent_envs.tasks.base import Outcome
from agent_envs.types import StopReason
from tests.agent_envs.rewards.outcomes import GOLD, Said, outcome_of, played

# Finds one of three, writes a malformed call, finds a second twice, then answers rightly: 3 calls, 4 turns, 40 tokens.
STORY = [
    Said(found=[(GOLD[0], "Elsewhere")]),
    Said(malformed=1),
    Said(found=[(GOLD[1],), (GOLD[1],)]),
    Said(answer="Ome"),
]


def earned(text: str, said: list[Said], reason: StopReason = StopReason.ANSWERED) -> list[float]:
    reward = QA_REWARDS.get(text)
    return [reward.turn(outcome) for outcome in played(said, reason)]


@pytest.mark.parametrize(
    ("text", "turns"),
    [
        ("em", [0, 0, 0, 1]),
        ("-tool_calls", [-1, 0, -2, 0]),
        ("-tool_calls(free=1)", [0, 0, -2, 0]),
        ("-tool_calls(free=2)", [0, 0, -1, 0]),
        ("3*support_gain", [1, 0, 1, 0]),
        ("3*support_recall", [0, 0, 0, 2]),
        ("-0.5*malformed_calls", [0, -0.5, 0, 0]),
        ("-0.1*length(limit=15)", [0, -0.5, -1, -1]),
        ("turns", [1, 1, 1, 1]),
        ("1", [0, 0, 0, 1]),
        ("em*format", [0, 0, 0, 0.5]),
        ("em*tool_format", [0, 0, 0, 0]),
        ("3*support_gain*answered", [0, 0, 0, 2]),
        ("tool_calls*malformed_calls", [0, 0, 0, 3]),
        ("em + 0.3*support_gain - 0.125*tool_calls(free=1)", [0.1, 0, 0.1 - 0.25, 1]),
        ("(em + 1)*(format - 1)", [0, 0, 0, -1]),
        ("0*em", [0, 0, 0, 0]),
    ],
)
def test_each_turn_is_paid_what_it_earned(text: str, turns: list[float]) -> None:
    assert earned(text, STORY) == pytest.approx(turns)


@pytest.mark.parametrize("reason", [reason for reason in StopReason if not reason.failed])
def test_every_end_but_a_failure_is_paid(reason: StopReason) -> None:
    story = [Said(found=[GOLD]), Said()]
    assert earned("1 + 3*support_gain + no_action_turns + answered", story, reason) == [3, 2]


TEXTS = [
    "paper",
    "em*format + 0.2*support_gain - 0.01*tool_calls",
    "(f1 - 0.1*turns)*(1 + support_gain)",
    "1 + 1 - length",
]


@pytest.mark.parametrize("text", TEXTS)
def test_the_turns_sum_to_the_expression_over_the_whole_episode(text: str) -> None:
    whole = outcome_of(STORY, StopReason.ANSWERED)
    values = {part.name: part.bind({})(whole) for part in QA_REWARDS.parts if part.name != "judge"}
    expected = sum(
        term.weight * math.prod(values[factor.name] for factor in term.factors)
        for term in parse_expression(text, QA_REWARDS.named)
    )
    assert sum(earned(text, STORY)) == pytest.approx(expected)


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("reason", [StopReason.ANSWERED, StopReason.MAX_TURNS, StopReason.TOOL_FAILURE])
def test_the_breakdown_sums_to_what_was_paid(text: str, reason: StopReason) -> None:
    paid = earned(text, STORY, reason)
    if reason.failed:  # the core doesn't ask for the reward of a turn that failed
        paid[-1] = 0.0
    breakdown = QA_REWARDS.get(text).breakdown(outcome_of(STORY, reason))
    assert sum(breakdown.values()) == pytest.approx(sum(paid))
    assert json.loads(json.dumps(breakdown)) == breakdown


def test_the_breakdown_names_the_parts_of_each_term() -> None:
    text = "2*em*format - 0.5*tool_calls(free=1) - 0.5*tool_calls(free=2) + 0.25 - 1"
    assert QA_REWARDS.get(text).breakdown(outcome_of(STORY, StopReason.ANSWERED)) == {
        "reward/em*format": 1.0,
        "reward/tool_calls": -1.5,
        "reward/constant": -0.75,
    }


def test_a_reward_of_nothing_is_no_negative_zero() -> None:
    assert [math.copysign(1.0, value) for value in earned("-tool_calls", [Said(), Said(answer="x")])] == [1.0, 1.0]


@pytest.mark.parametrize("text", ["reward", "emm*format", "em*format + supportgain", "f1(k=1)*emm"])
def test_unknown_parts_are_refused_with_the_known_ones(text: str) -> None:
    with pytest.raises((UnknownNameError, ConfigError)) as caught:
        QA_REWARDS.get(text)
    assert "no parameter 'k'" in str(caught.value) or "known: answer_format, answered, em, f1" in str(caught.value)


def test_a_name_for_an_expression_takes_no_parameters_but_can_be_part_of_another() -> None:
    with pytest.raises(ConfigError, match=r"paper stands for 'em.*takes no parameters"):
        QA_REWARDS.get("paper(free=1)")
    assert sum(earned("2*paper + 1", STORY)) == 0.0  # the malformed call costs half a point


def test_named_expressions_are_checked_when_the_catalogue_is_made() -> None:
    with pytest.raises(UnknownNameError, match="'nothing'"):
        RewardCatalogue(COMMON_PARTS, {"mine": "2*nothing"})
    with pytest.raises(ValueError, match="'format' is registered already"):
        RewardCatalogue(COMMON_PARTS, {"format": "answered"})


@pytest.mark.parametrize("make", [end_part, turn_part])
@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_part_that_gives_no_finite_number_is_an_error_that_names_it(make: Callable[..., Any], value: float) -> None:
    def broken(outcome: Outcome[Any]) -> float:
        """Nothing sensible."""
        return value

    reward = RewardCatalogue((make(broken),), {}).get("broken")
    with pytest.raises(ConfigError, match="broken must give a finite number"):
        reward.turn(outcome_of(STORY, StopReason.ANSWERED))
