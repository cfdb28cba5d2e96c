from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from agent_trainer.losses import AGGREGATIONS, Denominators, TokenLayout
from tests.agent_trainer.losses.three_turns import ACTIONS, EPISODES, LAYOUT, TURN_IDS, at_actions

PER_TOKEN = [[1, 3, 5, 2, 4], [6, 2, 1], [3, 3, 9]]
EVERY = sorted(AGGREGATIONS)


def picked(rows: list[int]) -> TokenLayout:
    return TokenLayout(LAYOUT.mask[rows], LAYOUT.turn_ids[rows], LAYOUT.episode_tokens[rows])


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("token", 39 / 11),
        ("sequence", (3 + 3 + 5) / 3),
        ("turn", (2 + 5 + 3 + 6 + 2 + 1 + 5) / 7),
        ("episode", (15 / 5 + 24 / 6) / 2),
        ("constant", 39 / (3 * 8)),
    ],
)
def test_the_aggregations_by_hand(name: str, expected: float) -> None:
    per_token = at_actions(PER_TOKEN)  # NaN at the environment's tokens
    found = AGGREGATIONS.get(name)(per_token, LAYOUT, Denominators.count(LAYOUT), 8.0)
    assert found.item() == pytest.approx(expected)


@pytest.mark.parametrize(
    ("name", "weights"),
    [
        ("token", [1 / 11] * 11),
        ("sequence", [1 / 15] * 5 + [1 / 9] * 6),
        ("turn", [1 / 14, 1 / 14, 1 / 7, 1 / 14, 1 / 14, 1 / 7, 1 / 7, 1 / 7, 1 / 21, 1 / 21, 1 / 21]),
        ("episode", [1 / 10] * 5 + [1 / 12] * 6),
        ("constant", [1 / 24] * 11),
    ],
)
def test_what_each_token_weighs_by_hand(name: str, weights: list[float]) -> None:
    per_token = at_actions(PER_TOKEN).requires_grad_()
    AGGREGATIONS.get(name)(per_token, LAYOUT, Denominators.count(LAYOUT), 8.0).backward()
    assert per_token.grad is not None
    assert per_token.grad[ACTIONS].tolist() == pytest.approx(weights)
    assert (per_token.grad[~ACTIONS] == 0).all()


@given(st.sampled_from(EVERY), st.lists(st.integers(0, 3), min_size=4, max_size=4))
def test_the_shares_of_micro_batches_add_up_however_the_window_is_split(name: str, part_of: list[int]) -> None:
    per_token, counts = at_actions(PER_TOKEN), Denominators.count(LAYOUT)
    aggregate = AGGREGATIONS.get(name)
    parts = [rows for part in range(4) if (rows := [row for row, of in enumerate(part_of) if of == part])]
    shares = [aggregate(per_token[rows], picked(rows), counts, 8.0) for rows in parts]
    assert sum(shares).item() == pytest.approx(aggregate(per_token, LAYOUT, counts, 8.0).item(), abs=1e-12)


@pytest.mark.parametrize("name", EVERY)
def test_an_empty_share_is_a_zero_that_is_attached_to_the_graph(name: str) -> None:
    per_token = at_actions(PER_TOKEN).requires_grad_()
    share = AGGREGATIONS.get(name)(per_token[3:], picked([3]), Denominators.count(LAYOUT), 8.0)
    alone = AGGREGATIONS.get(name)(per_token[3:], picked([3]), Denominators.count(picked([3])), 8.0)
    (share + alone).backward()
    assert share.item() == alone.item() == 0
    assert (per_token.grad == 0).all()


@given(st.integers(0, 12), st.integers(0, 9))
def test_an_observation_of_any_length_changes_no_aggregation(at: int, longer: int) -> None:
    # The token at column ``at`` is repeated as the environment's, in its own turn.
    def stretched(tensor: torch.Tensor, fill: torch.Tensor) -> torch.Tensor:
        return torch.cat([tensor[:, : at + 1], fill.expand(-1, longer), tensor[:, at + 1 :]], dim=1)

    nothing = torch.zeros(4, 1, dtype=torch.bool)
    layout = TokenLayout.of_rows(stretched(ACTIONS, nothing), stretched(TURN_IDS, TURN_IDS[:, at : at + 1]), EPISODES)
    per_token = stretched(at_actions(PER_TOKEN), torch.full((4, 1), torch.nan, dtype=torch.double))
    for name in EVERY:
        aggregate = AGGREGATIONS.get(name)
        before = aggregate(at_actions(PER_TOKEN), LAYOUT, Denominators.count(LAYOUT), 8.0)
        after = aggregate(per_token, layout, Denominators.count(layout), 8.0)
        assert after.item() == pytest.approx(before.item(), abs=1e-12), name


def test_an_episode_weighs_the_same_in_one_row_and_in_two() -> None:
    one_row = TokenLayout.of_rows(
        torch.cat([ACTIONS[1:2], ACTIONS[2:3]], dim=1), torch.cat([TURN_IDS[1:2], TURN_IDS[2:3]], dim=1), EPISODES[1:2]
    )
    per_token = at_actions(PER_TOKEN)
    aggregate = AGGREGATIONS.get("episode")
    joined = aggregate(torch.cat([per_token[1:2], per_token[2:3]], dim=1), one_row, Denominators.count(one_row), 8.0)
    two_rows = TokenLayout.of_rows(ACTIONS[1:3], TURN_IDS[1:3], EPISODES[1:3])
    apart = aggregate(per_token[1:3], two_rows, Denominators.count(two_rows), 8.0)
    assert joined.item() == pytest.approx(apart.item()) == pytest.approx(24 / 6)
