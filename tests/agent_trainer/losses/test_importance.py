from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from agent_trainer.losses import IMPORTANCE_CORRECTIONS, IMPORTANCE_LIMITS, importance_weights
from tests.agent_trainer.losses.three_turns import ACTIONS, at_actions

LN2 = math.log(2)
# log2(pi_old / mu): means 0.8, 0 and, of the two that are known, -1.
GAP = [[2.0, 1.0, 1.0, -1.0, 1.0], [-1.0, 0.0, 1.0], [-1.0, math.nan, -1.0]]


def weights(correction: str, limit: str, bounds: tuple[float, float] = (0.6, 1.9)) -> Tensor:
    gap = (LN2 * at_actions(GAP)).requires_grad_()
    found = importance_weights(
        gap, ACTIONS, IMPORTANCE_CORRECTIONS.get(correction), IMPORTANCE_LIMITS.get(limit), bounds
    )
    assert not found.requires_grad
    return found[ACTIONS]


@pytest.mark.parametrize(
    ("correction", "limit", "expected"),
    [
        ("token", "truncate", [1.9, 1.9, 1.9, 0.6, 1.9, 0.6, 1.0, 1.9, 0.6, 1.0, 0.6]),
        ("token", "mask", [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 1.0, 0.0]),
        ("sequence", "truncate", [2**0.8] * 5 + [1.0] * 3 + [0.6] * 3),
        ("sequence", "mask", [2**0.8] * 5 + [1.0] * 3 + [0.0] * 3),
        ("none", "truncate", [1.0] * 11),
        ("none", "mask", [1.0] * 11),
    ],
)
def test_the_weights_by_hand(correction: str, limit: str, expected: list[float]) -> None:
    assert weights(correction, limit).tolist() == pytest.approx(expected)


@pytest.mark.parametrize("correction", sorted(IMPORTANCE_CORRECTIONS))
@pytest.mark.parametrize("limit", sorted(IMPORTANCE_LIMITS))
def test_a_row_whose_sampler_is_silent_weighs_one_whatever_the_bounds(correction: str, limit: str) -> None:
    gap = torch.full(ACTIONS.shape, math.nan)
    found = importance_weights(
        gap, ACTIONS, IMPORTANCE_CORRECTIONS.get(correction), IMPORTANCE_LIMITS.get(limit), (1.5, 1.6)
    )
    assert (found == 1).all()


@given(st.floats(-5, 5), st.integers(1, 40))
def test_the_geometric_mean_does_not_grow_with_length(gap: float, length: int) -> None:
    found = importance_weights(
        torch.full((1, length), gap),
        torch.ones(1, length, dtype=torch.bool),
        IMPORTANCE_CORRECTIONS.get("sequence"),
        IMPORTANCE_LIMITS.get("truncate"),
        (0.0, 1e9),
    )
    assert found[0].tolist() == pytest.approx([math.exp(gap)] * length, rel=1e-4)


def test_an_impossible_token_of_the_sampler_meets_the_bound() -> None:
    gap = torch.tensor([[math.inf, -math.inf, 0.0]])
    everywhere = torch.ones(1, 3, dtype=torch.bool)
    token = IMPORTANCE_CORRECTIONS.get("token")
    truncated, masked = (
        importance_weights(gap, everywhere, token, IMPORTANCE_LIMITS.get(limit), (0.1, 2.0))
        for limit in ("truncate", "mask")
    )
    assert truncated.tolist() == [pytest.approx([2.0, 0.1, 1.0])]
    assert masked.tolist() == [[0.0, 0.0, 1.0]]
