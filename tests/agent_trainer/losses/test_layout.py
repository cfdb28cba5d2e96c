from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from agent_trainer.losses import Denominators, TokenLayout, loss_mask
from agent_trainer.losses.layout import mean_over_row, mean_over_turn, turn_sizes
from tests.agent_trainer.losses.three_turns import ACTIONS, COMPLETION, EPISODES, LAYOUT, TURN_IDS, at_actions


def test_the_counts_by_hand() -> None:
    # Rows of 5, 3, 3 and 0 tokens; turns of 2, 1, 2 | 1, 1, 1 | 3; rows 1 and 2 are one episode.
    counts = Denominators.count(LAYOUT)
    assert counts.stack().tolist() == pytest.approx([11, 3, 7, 2])
    assert LAYOUT.episode_tokens.tolist() == [5, 6, 6, 0]


def test_means_by_row_and_turn_look_at_masked_tokens_alone() -> None:
    values = at_actions([[1, 3, 5, 2, 4], [6, 2, 1], [3, 3, 9]])  # NaN at the environment's tokens
    assert mean_over_row(values, ACTIONS)[:, 0].tolist() == [3, 3, 5, 0]
    means = mean_over_turn(values, LAYOUT)[ACTIONS].tolist()
    assert means == [2, 2, 5, 3, 3, 6, 2, 1, 5, 5, 5]
    assert turn_sizes(LAYOUT)[ACTIONS].tolist() == [2, 2, 1, 2, 2, 1, 1, 1, 3, 3, 3]


def test_without_the_loss_mask_the_environments_tokens_are_counted_and_padding_is_not() -> None:
    mask = loss_mask(ACTIONS, COMPLETION, only_actions=False)
    counts = Denominators.count(TokenLayout.of_rows(mask, TURN_IDS, EPISODES))
    assert counts.stack().tolist() == pytest.approx([25, 3, 7, 2])


@given(st.lists(st.integers(0, 2), min_size=4, max_size=4))
def test_the_counts_of_a_split_window_add_up_even_where_it_cuts_an_episode_in_two(part_of: list[int]) -> None:
    parts = [
        Denominators.count(TokenLayout(LAYOUT.mask[rows], LAYOUT.turn_ids[rows], LAYOUT.episode_tokens[rows]))
        for rows in ([i for i, p in enumerate(part_of) if p == part] for part in range(3))
        if rows
    ]
    total = torch.stack([part.stack() for part in parts]).sum(dim=0)
    assert total.tolist() == pytest.approx(Denominators.count(LAYOUT).stack().tolist())


def test_an_episode_between_two_windows_counts_in_each_by_its_share() -> None:
    episode = TokenLayout.of_rows(ACTIONS[1:3], TURN_IDS[1:3], EPISODES[1:3])
    first = TokenLayout(episode.mask[:1], episode.turn_ids[:1], episode.episode_tokens[:1])
    assert Denominators.count(first).episodes.item() == pytest.approx(0.5)


def test_shapes_that_contradict_each_other_are_an_error() -> None:
    with pytest.raises(ValueError, match="expected mask"):
        TokenLayout(ACTIONS, TURN_IDS[:, :3], LAYOUT.episode_tokens)
