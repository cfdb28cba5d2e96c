from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from agent_envs.types import Segment, StopReason
from agent_trainer.batch import flush_left, make_rows, pad_rows, place_rewards
from tests.agent_trainer.episodes import THREE_TURNS, episode


def test_a_row_is_a_prompt_on_the_left_and_everything_after_it_on_the_right() -> None:
    rows = make_rows([episode("PPaeea"), episode("Paa")], [0, 1], [0, 0], pad_id=99)
    assert rows.prompt_ids.tolist() == [[1, 2], [99, 1]]
    assert rows.prompt_mask.tolist() == [[1, 1], [0, 1]]
    assert rows.completion_ids.tolist() == [[3, 4, 5, 6], [2, 3, 99, 99]]
    assert rows.completion_mask.tolist() == [[1, 1, 1, 1], [1, 1, 0, 0]]
    assert rows.action_mask.tolist() == [[True, False, False, True], [True, True, False, False]]
    assert rows.turn_ids.tolist() == [[0, 0, 0, 1], [0, 0, -1, -1]]
    assert rows.sampler_logprobs.nan_to_num(9).tolist() == [[-1, 9, 9, -1], [-1, -1, 9, 9]]


def test_each_segment_is_a_row_and_each_sampled_token_is_in_exactly_one() -> None:
    layout = "PPaaeaPPPaaa"
    two = episode(layout, {5: 0.5, 11: 1.0}, segments=(Segment(0, 6, 2), Segment(6, 12, 3)))
    rows = make_rows([two, episode("Pa")], [7, 8], [3, 3])
    assert rows.episode_ids.tolist() == [7, 7, 8]
    assert rows.group_ids.tolist() == [3, 3, 3]
    trained = rows.completion_ids[rows.action_mask][:6]
    assert trained.tolist() == two.tokens[two.action_mask].tolist()
    assert rows.rewards[:2].sum().item() == two.total_reward == 1.5


@pytest.mark.parametrize(
    ("position", "lands_on"), [(5, 5), (8, 5), (12, 5), (14, 14), (15, 14), (0, 3), (18, 18)], ids=str
)
def test_a_reward_off_the_action_tokens_folds_back_to_the_last_one_before_it(position: int, lands_on: int) -> None:
    mask = np.array([letter == "a" for letter in THREE_TURNS])
    rewards = np.zeros(len(mask), dtype=np.float32)
    rewards[position] = 2.5
    placed = place_rewards(rewards, mask)
    assert np.flatnonzero(placed).tolist() == [lands_on]
    assert placed.sum() == 2.5


@given(
    st.lists(st.sampled_from("ae"), min_size=1, max_size=40),
    st.lists(st.floats(-4, 4, width=32), min_size=43, max_size=43),
)
def test_the_rewards_placed_sum_to_the_rewards_emitted(letters: list[str], values: list[float]) -> None:
    layout = "PP" + "a" + "".join(letters)
    emitted = np.array(values[: len(layout)], dtype=np.float32)
    placed = place_rewards(emitted, np.array([letter == "a" for letter in layout]))
    assert np.isclose(placed.sum(dtype=np.float64), emitted.sum(dtype=np.float64), atol=1e-5)
    assert all(letter == "a" for letter, reward in zip(layout, placed, strict=True) if reward)


def test_a_reward_without_an_action_token_is_an_error() -> None:
    with pytest.raises(ValueError, match="without action tokens"):
        place_rewards(np.array([0, 1], dtype=np.float32), np.array([False, False]))


def test_a_failed_episode_is_marked_invalid_and_a_truncated_one_is_not() -> None:
    failed = episode("Pa", reason=StopReason.TOOL_FAILURE)
    truncated = episode("Pa", reason=StopReason.MAX_TURNS)
    assert make_rows([failed, truncated], [0, 1], [0, 0]).valid.tolist() == [False, True]


def test_rows_of_weight_zero_fill_up_to_a_multiple() -> None:
    rows = make_rows([episode("PPaea"), episode("Paa"), episode("Pa")], [0, 1, 2], [0, 0, 0])
    padded = pad_rows(rows, 4, pad_id=5)
    assert len(padded) == 4
    assert len(pad_rows(padded, 4)) == 4
    assert not padded.action_mask[3].any()
    assert not padded.valid[3]
    assert padded.completion_mask[3].sum() == 0
    assert padded.prompt_mask[3].sum() == 1  # one token, so that attention has something to look at
    assert len(pad_rows(rows.select(torch.tensor([False, False, False])), 4)) == 4


def test_flushing_left_closes_the_gaps_and_cuts_columns_that_no_row_uses() -> None:
    rows = make_rows([episode("PPPPa"), episode("Paaee")], [0, 1], [0, 0])
    ids, starts = flush_left(rows.prompt_ids, rows.prompt_mask, rows.completion_ids, rows.completion_mask)
    assert ids.tolist() == [[1, 2, 3, 4, 5], [1, 2, 3, 4, 5]]
    assert starts.tolist() == [4, 1]


@pytest.mark.parametrize(
    ("segments", "message"),
    [
        ((Segment(0, 5, 2),), "do not tile"),
        ((Segment(0, 4, 2), Segment(3, 6, 1)), "do not tile"),
        ((Segment(0, 6, 0),), "without a prompt"),
        ((Segment(0, 6, 3),), "in a segment's prompt"),
    ],
)
def test_segments_that_lose_tokens_are_refused(segments: tuple[Segment, ...], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make_rows([episode("PPaeea", segments=segments)], [0], [0])


def test_no_episodes_are_refused() -> None:
    with pytest.raises(ValueError, match="at least one"):
        make_rows([], [], [])
