from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_envs.types import Segment
from agent_trainer.anchors import State, alike, turn_anchors
from agent_trainer.batch import RowBatch, make_rows, pad_rows
from tests.agent_trainer.episodes import episode


def of_turns(rows: RowBatch, similarity: float = 1.0) -> list[list[int]]:
    """The anchors of each row's turns; fails where the tokens of a turn differ."""
    anchors = turn_anchors(rows, similarity, lambda states: states)
    assert (anchors[rows.turn_ids < 0] == -1).all()
    result = []
    for ids, numbers in zip(rows.turn_ids, anchors, strict=True):
        turns = [numbers[ids == turn].unique().tolist() for turn in ids[ids >= 0].unique()]
        assert all(len(turn) == 1 for turn in turns)
        result.append([turn[0] for turn in turns])
    return result


def test_turns_after_the_same_observation_began_in_the_same_state() -> None:
    # Both begin with the prompt 1 2. The first reads 50 51, then 60; the second reads 60, then 50 51.
    first = episode("PPaeeaea", tokens=[1, 2, 7, 50, 51, 8, 60, 9])
    second = episode("PPaaeaeea", tokens=[1, 2, 5, 6, 60, 7, 50, 51, 9])
    one, two = of_turns(make_rows([first, second], [0, 1], [0, 0]))
    assert one[0] == two[0]
    assert one[1] == two[2]
    assert one[2] == two[1]
    assert len({*one, *two}) == 3


def test_the_same_observation_in_another_group_is_another_state() -> None:
    one, two = of_turns(make_rows([episode("PPa"), episode("PPa")], [0, 1], [0, 1]))
    assert one != two


def test_a_segments_first_turn_began_in_its_prompt() -> None:
    long = episode("PPaePPa", tokens=[1, 2, 7, 50, 1, 3, 8], segments=(Segment(0, 4, 2), Segment(4, 7, 2)))
    rows = make_rows([long, episode("PPa", tokens=[1, 3, 9])], [0, 1], [0, 0])
    (first,), (second,), (other,) = of_turns(rows)
    assert first != second == other


def test_states_that_are_alike_share_a_number() -> None:
    # 10 tokens each: the second differs from the first in one (ratio 0.9), the third in five.
    base = tuple(range(10, 20))
    states: list[State] = [(0, base), (0, (99, *base[1:])), (0, (*range(90, 95), *base[5:]))]
    numbers = alike(states, 0.9)
    assert numbers[states[0]] == numbers[states[1]] != numbers[states[2]]
    assert len({alike(states, 0.91)[state] for state in states[:3]}) == 3


def test_numbers_of_alike_states_are_their_groups_own() -> None:
    # The lone state of group 1 is numbered from the start: numbers are compared within a group only.
    assert alike([(0, (1, 2)), (0, (8, 9)), (1, (8, 9))], 0.9) == {(0, (1, 2)): 0, (0, (8, 9)): 1, (1, (8, 9)): 0}


STATES = st.lists(st.tuples(st.integers(0, 1), st.lists(st.integers(0, 2), max_size=5).map(tuple)), max_size=8)


@given(STATES, st.randoms(use_true_random=False), st.sampled_from([0.5, 0.75, 1.0]))
def test_numbers_do_not_depend_on_the_order_of_the_states(
    states: list[State], dice: random.Random, similarity: float
) -> None:
    shuffled = states.copy()
    dice.shuffle(shuffled)
    assert alike(states, similarity) == alike(shuffled, similarity)


def test_hashes_are_the_same_in_every_process() -> None:
    assert of_turns(make_rows([episode("PPa")], [0], [3])) == [[4_940_959_996_122_459_224]]


@pytest.mark.parametrize("similarity", [0.5, 1.0])
def test_rows_of_weight_zero_have_no_state(similarity: float) -> None:
    rows = pad_rows(make_rows([episode("PPaea")], [0], [0]), 4)
    assert (turn_anchors(rows, similarity, lambda states: states)[1:] == -1).all()
