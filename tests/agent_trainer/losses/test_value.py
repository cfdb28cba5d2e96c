from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from agent_trainer.losses import ValueInputs, value_loss
from tests.agent_trainer.losses.three_turns import ACTIONS, at_actions

VALUES = [[1.0, 1.0, 0.1, 3.0, 0.0], [0.0] * 3, [1.0, 1.0, 1.0]]
OLD = [[0.5, 0.5, 0.0, 0.5, 0.0], [0.0] * 3, [1.0, 1.0, 1.0]]
TARGETS = [[2.0, 0.0, 1.0, 1.0, 0.0], [1.0] * 3, [1.0, 2.0, 3.0]]


def inputs() -> ValueInputs:
    """NaN at the environment's tokens."""
    return ValueInputs(at_actions(VALUES).requires_grad_(), at_actions(OLD), at_actions(TARGETS), ACTIONS)


def test_the_plain_squared_error_by_hand() -> None:
    given_ = inputs()
    found = value_loss(given_, None, ACTIONS.sum().double())
    # Squares 1, 1, .81, 4, 0 | 1, 1, 1 | 0, 1, 4: half their mean over 11 tokens.
    assert found.loss.item() == pytest.approx(14.81 / 22)
    assert found.sums["value_error"].item() == pytest.approx(14.81)
    assert found.sums["value_clipped"].item() == 0
    found.loss.backward()
    expected = [-1, 1, -0.9, 2, 0, -1, -1, -1, 0, -1, -2]
    assert (11 * given_.values.grad)[ACTIONS].tolist() == pytest.approx(expected)
    assert (given_.values.grad[~ACTIONS] == 0).all()


def test_clipping_takes_the_gradient_from_values_that_moved_far_enough_towards_their_target() -> None:
    given_ = inputs()
    found = value_loss(given_, 0.2, ACTIONS.sum().double())
    # Clipped values of row 0: .7, .7, .1, .7, 0. Errors (1, 1.69), (1, .49), (.81, .81), (4, .09), (0, 0): the larger.
    assert found.loss.item() == pytest.approx((14.81 + 0.69) / 22)
    assert found.sums["value_clipped"].item() == 1
    found.loss.backward()
    # The first went from .5 to 1, towards 2; the second away from its target, and the fourth past it.
    assert (11 * given_.values.grad)[ACTIONS].tolist()[:5] == pytest.approx([0, 1, -0.9, 2, 0])


@pytest.mark.parametrize("clip", [None, 0.2])
def test_the_gradient_is_that_of_finite_differences(clip: float | None) -> None:
    generator = torch.Generator().manual_seed(5)
    values, old, targets = (torch.randn(2, 4, generator=generator, dtype=torch.double) for _ in range(3))
    mask = torch.tensor([[True, False, True, True], [False, True, True, False]])
    assert torch.autograd.gradcheck(
        lambda x: value_loss(ValueInputs(x, old, targets, mask), clip, mask.sum()).loss, (values.requires_grad_(),)
    )


@given(st.sampled_from([None, 0.2, 1.0]), st.integers(1, 3))
def test_the_shares_of_micro_batches_add_up(clip: float | None, cut: int) -> None:
    whole, count = inputs(), ACTIONS.sum()
    shares = [
        value_loss(
            ValueInputs(whole.values[rows], whole.old_values[rows], whole.targets[rows], whole.mask[rows]), clip, count
        ).loss
        for rows in (slice(0, cut), slice(cut, 4))
    ]
    assert sum(shares).item() == pytest.approx(value_loss(whole, clip, count).loss.item(), abs=1e-12)


def test_an_empty_mask_gives_a_zero_that_is_attached_to_the_graph() -> None:
    values = torch.full((1, 3), math.nan, requires_grad=True)
    nothing = torch.zeros(1, 3, dtype=torch.bool)
    loss = value_loss(ValueInputs(values, values, values, nothing), 0.2, nothing.sum()).loss
    loss.backward()
    assert loss.item() == 0
    assert (values.grad == 0).all()
