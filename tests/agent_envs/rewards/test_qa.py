"""Rewards of question answering: the paper's, by hand; and progress that cannot be farmed, whatever the policy does."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_envs.data.records import Passage
from agent_envs.rewards import QA_REWARDS
from agent_envs.types import StopReason
from tests.agent_envs.rewards.outcomes import GOLD, QUESTION, Said, outcome_of, played

BAD_CALL = Said(malformed=1)


@pytest.mark.parametrize(
    ("said", "reward"),
    [
        ([Said(answer="the port Ome!")], 1.0),
        ([Said(found=[GOLD]), Said(answer="ome")], 1.0),
        ([Said(answer="I think it is Port Ome")], 0.0),
        ([Said(answer="Ome", well_formed=False)], -0.5),
        ([BAD_CALL, Said(answer="Ome")], -0.5),
        ([BAD_CALL, Said(answer="wrong")], -0.5),
        ([Said(found=[GOLD]), Said()], -0.5),
        ([BAD_CALL, Said()], -1.0),
        ([BAD_CALL, Said(answer="Ome", well_formed=False)], -1.0),
    ],
)
def test_the_papers_reward_is_em_or_a_penalty_at_the_end_alone(said: list[Said], reward: float) -> None:
    turns = [QA_REWARDS.get("paper").turn(outcome) for outcome in played(said)]
    assert turns == [0.0] * (len(said) - 1) + [reward]


@pytest.mark.parametrize("text", ["paper", "em", "f1", "em*format", "em + 0.2*support_gain"])
def test_stalling_earns_no_more_than_a_wrong_answer_and_breaking_calls_no_more_than_not(text: str) -> None:
    def earned(*said: Said) -> float:
        return sum(QA_REWARDS.get(text).turn(outcome) for outcome in played(said))

    right, wrong, nothing = Said(answer="Ome"), Said(answer="x"), Said()
    assert earned(right) > earned(wrong) >= earned(nothing)
    for last in (right, wrong, nothing):
        assert earned(last) >= earned(BAD_CALL, last)
    assert earned(right) >= earned(Said(answer="Ome", well_formed=False))


@pytest.mark.parametrize(("answer", "em", "f1"), [("Port Ome", 1, 1), ("Port", 0, 2 / 3), ("x", 0, 0), (None, 0, 0)])
def test_em_and_f1_judge_the_answer(answer: str | None, em: float, f1: float) -> None:
    (outcome,) = played([Said(answer=answer)], StopReason.MAX_TURNS)
    assert QA_REWARDS.get("em").turn(outcome) == em
    assert QA_REWARDS.get("f1").turn(outcome) == pytest.approx(f1)


@pytest.mark.parametrize(
    ("answer", "value"), [("$1,000.", 1), ("1000.0 metres", 1), ("999", 0), ("much", 0), (None, 0)]
)
def test_numeric_compares_numbers_however_they_are_written(answer: str | None, value: float) -> None:
    item = dataclasses.replace(QUESTION, answers=("a thousand", "1000"))
    outcome = outcome_of([Said(answer=answer)], StopReason.MAX_TURNS, item)
    assert QA_REWARDS.get("numeric").turn(outcome) == value
    assert QA_REWARDS.get("numeric").turn(outcome_of([Said(answer="1")], StopReason.ANSWERED)) == 0.0


def test_where_nothing_was_to_be_found_nothing_is_gained() -> None:
    item = dataclasses.replace(QUESTION, supporting_facts=())
    outcome = outcome_of([Said(found=[("x",)])], StopReason.MAX_TURNS, item)
    assert QA_REWARDS.get("support_gain").turn(outcome) == 0.0
    assert QA_REWARDS.get("support_recall").turn(outcome) == 1.0


def test_where_titles_repeat_only_the_very_passage_is_found() -> None:
    first, second, other = (Passage("Ome", text) for text in ("A port.", "A river.", "A song."))
    item = dataclasses.replace(QUESTION, gold_passages=(first, second))
    turns = [
        Said(found=[("Ome",)]),
        Said(found=[(other.key,)], found_by="keys"),
        Said(found=[(first.key, other.key)], found_by="keys"),
        Said(found=[(second.key,), (first.key,)], found_by="keys"),
    ]
    reward = QA_REWARDS.get("support_gain")
    assert [reward.turn(outcome_of(turns[:count], None, item)) for count in (1, 2, 3, 4)] == [0.0, 0.0, 0.5, 0.5]


# Progress. A call is the titles that it finds; a turn is its calls; an episode ends with an answer or without.

Calls = list[tuple[str, ...]]

_CALL = st.lists(st.sampled_from((*GOLD, "Elsewhere")), max_size=3).map(tuple)
_EPISODE = st.lists(st.lists(_CALL, max_size=3), min_size=1, max_size=6)


def said(turns: Sequence[Calls]) -> list[Said]:
    return [Said(found=calls) for calls in turns] + [Said(answer="Ome")]


def total(text: str, turns: Sequence[Calls]) -> float:
    reward = QA_REWARDS.get(text)
    return sum(reward.turn(outcome) for outcome in played(said(turns)))


def found(turns: Sequence[Calls]) -> set[str]:
    return {title for calls in turns for titles in calls for title in titles}


@given(_EPISODE)
def test_the_gains_of_all_turns_sum_to_the_recall_of_the_episode(turns: list[Calls]) -> None:
    assert total("support_gain", turns) == pytest.approx(len(found(turns) & set(GOLD)) / len(GOLD), abs=1e-12)
    assert total("support_gain", turns) == pytest.approx(total("support_recall", turns), abs=1e-12)


@given(_EPISODE, st.data())
def test_what_is_found_decides_and_not_the_way(turns: list[Calls], data: st.DataObject) -> None:
    other = [[(title,)] for title in data.draw(st.permutations(sorted(found(turns))))]
    assert total("support_gain", other) == pytest.approx(total("support_gain", turns), abs=1e-12)


@given(_EPISODE, st.data())
def test_repeating_calls_gains_nothing_and_costs_what_calls_cost(turns: list[Calls], data: st.DataObject) -> None:
    made = [call for calls in turns for call in calls]
    again = data.draw(st.lists(st.sampled_from(made), min_size=1, max_size=8)) if made else [()]
    where = data.draw(st.integers(0, len(turns)))
    for spammed in ([*turns, again], [*turns, *[[call] for call in again]], _inserted(turns, where, again)):
        assert total("support_gain", spammed) == pytest.approx(total("support_gain", turns), abs=1e-12)
        priced = "support_gain - 0.01*tool_calls"
        assert total(priced, spammed) == pytest.approx(total(priced, turns) - 0.01 * len(again), abs=1e-9)


def _inserted(turns: list[Calls], where: int, again: Calls) -> list[Calls]:
    """The calls in a turn of their own before they were ever useful, and what was there after them."""
    return [*turns[:where], again, *turns[where:]]


@given(_EPISODE)
def test_splitting_turns_gains_nothing_and_costs_what_turns_cost(turns: list[Calls]) -> None:
    split = [[call] for calls in turns for call in calls]
    assert total("support_gain", split) == pytest.approx(total("support_gain", turns), abs=1e-12)
    more = len(split) - len(turns)
    priced = "support_gain - 0.25*turns - 0.01*tool_calls(free=1)"
    assert total(priced, split) == pytest.approx(total(priced, turns) - 0.25 * more, abs=1e-9)


@given(_EPISODE)
def test_splitting_one_call_into_several_gains_nothing(turns: list[Calls]) -> None:
    split = [[(title,) for titles in calls for title in titles] for calls in turns]
    assert total("support_gain", split) == pytest.approx(total("support_gain", turns), abs=1e-12)


@given(_EPISODE, st.integers(1, 4))
def test_malformed_and_empty_turns_gain_nothing(turns: list[Calls], count: int) -> None:
    reward = QA_REWARDS.get("support_gain")
    spammed = [*said(turns)[:-1], *[Said(malformed=3), Said()] * count, Said(answer="Ome")]
    gains = [reward.turn(outcome) for outcome in played(spammed)]
    assert gains[len(turns) :] == [0.0] * (2 * count + 1)
