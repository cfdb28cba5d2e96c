from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from agent_trainer.losses import KL_ESTIMATORS, KLCoefficient, penalise_rewards
from tests.agent_trainer.losses.three_turns import ACTIONS, at_actions


def test_the_estimators_by_hand() -> None:
    p, q = torch.tensor([math.log(0.5)]), torch.tensor([math.log(0.25)])
    log2 = math.log(2)
    assert KL_ESTIMATORS.get("k1")(p, q).item() == pytest.approx(log2)
    assert KL_ESTIMATORS.get("k2")(p, q).item() == pytest.approx(log2**2 / 2)
    assert KL_ESTIMATORS.get("k3")(p, q).item() == pytest.approx(0.5 + log2 - 1)


@pytest.mark.parametrize("name", ["k1", "k3"])
def test_k1_and_k3_average_to_the_exact_kl(name: str) -> None:
    p, q = torch.tensor([0.1, 0.2, 0.7]), torch.tensor([0.3, 0.3, 0.4])
    exact = (p * (p / q).log()).sum()
    assert (p * KL_ESTIMATORS.get(name)(p.log(), q.log())).sum().item() == pytest.approx(exact.item(), abs=1e-6)


@pytest.mark.parametrize(("name", "is_that_of_the_kl"), [("k1", False), ("k2", True)])
def test_the_mean_gradient_of_k2_in_the_loss_is_the_kls_and_that_of_k1_is_zero(
    name: str, is_that_of_the_kl: bool
) -> None:
    logits = torch.tensor([0.3, -0.2, 1.0], dtype=torch.double, requires_grad=True)
    q = torch.tensor([0.3, 0.3, 0.4], dtype=torch.double).log()
    p = logits.log_softmax(0)
    (found,) = torch.autograd.grad((p.exp().detach() * KL_ESTIMATORS.get(name)(p, q)).sum(), logits, retain_graph=True)
    (of_the_kl,) = torch.autograd.grad((p.exp() * (p - q)).sum(), logits)
    assert torch.allclose(found, of_the_kl if is_that_of_the_kl else torch.zeros(3).double(), atol=1e-12)


def test_the_penalty_on_rewards_by_hand() -> None:
    rewards = at_actions([[0, 0, 0, 0, 1], [0, 0, 0], [0, 0, 0.5]], elsewhere=0.0)
    logprobs = at_actions([[-1, -2, -1, -1, -3], [-1, -1, -1], [-1, -1, -1]]).requires_grad_()
    reference = at_actions([[-2, -1, -1, -3, -3], [-1, -2, -1], [-1, -1, -2]])
    found = penalise_rewards(rewards, logprobs, reference, ACTIONS, coef=0.1)
    expected = [-0.1, 0.1, 0, -0.2, 1, 0, -0.1, 0, 0, 0, 0.4]
    assert found.rewards[ACTIONS].tolist() == pytest.approx(expected)
    assert not found.rewards[~ACTIONS].any()
    assert not found.kl[~ACTIONS].any()
    assert not found.rewards.requires_grad


@given(st.floats(-9, 0), st.floats(-9, 0), st.floats(0, 2))
def test_the_environments_tokens_pay_no_penalty_and_the_rest_adds_up(theirs: float, of_ref: float, coef: float) -> None:
    rewards = at_actions([[0, 0, 0, 0, 1], [0, 0, 0], [0, 0, 0.5]], elsewhere=0.0)
    logprobs = at_actions([[-1.5] * 5, [-1] * 3, [-2] * 3], elsewhere=theirs)
    reference = at_actions([[-1] * 5, [-2] * 3, [-2] * 3], elsewhere=of_ref)
    found = penalise_rewards(rewards, logprobs, reference, ACTIONS, coef)
    assert found.rewards.sum().item() == pytest.approx(1.5 - coef * (5 * -0.5 + 3 * 1.0))


@pytest.mark.parametrize(
    ("mean_kl", "factor"),
    [(0.105, 1.005), (0.095, 0.995), (0.1, 1.0), (0.9, 1.02), (0.0, 0.98), (-1.0, 0.98)],
)
def test_an_adaptive_coefficient_by_hand(mean_kl: float, factor: float) -> None:
    before = KLCoefficient(0.5, target=0.1)
    assert before.updated(mean_kl).value == pytest.approx(0.5 * factor)
    assert before.value == 0.5


@given(st.floats(0, 10))
def test_a_fixed_coefficient_stays(mean_kl: float) -> None:
    assert KLCoefficient(0.5).updated(mean_kl) == KLCoefficient(0.5)


def test_an_adaptive_coefficient_settles_where_the_kl_is_the_target() -> None:
    coefficient = KLCoefficient(1.0, target=0.1)
    for _ in range(300):  # a policy whose KL is inversely proportional to the coefficient
        coefficient = coefficient.updated(0.02 / coefficient.value)
    assert coefficient.value == pytest.approx(0.2, rel=1e-3)
