"""Numbers by hand on the three turns of row 0, whose ratios are powers of two: tokens 2, 1/2 | 2 | 1, 1/4."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from agent_trainer.losses import SURROGATES, Clip, clipped_surrogate
from agent_trainer.losses.surrogates import PolicyTerms
from tests.agent_trainer.losses.three_turns import ACTIONS, LAYOUT, ROW_LAYOUT, row_terms

POWERS = [1.0, -1.0, 1.0, 0.0, -2.0]
ADVANTAGES = [1.0, 1.0, -1.0, 2.0, 2.0]
CLIP = Clip(low=0.2, high=0.28, dual=1.5)
LN2 = math.log(2)


def value_and_gradient(name: str, terms: PolicyTerms, clip: Clip = CLIP) -> tuple[list[float], list[float]]:
    """Of the sum over the row, at its five action tokens; nothing may move at the others."""
    per_token = SURROGATES.get(name)(terms, clip).per_token
    (gradient,) = torch.autograd.grad(per_token[terms.layout.mask].sum(), terms.logprobs)
    assert not gradient[~terms.layout.mask].any()
    return per_token[terms.layout.mask].tolist(), gradient[terms.layout.mask].tolist()


def test_the_clipped_surrogate_by_hand() -> None:
    ratio = torch.tensor([0.5, 0.5, 1.1, 1.5, 1.5])
    advantages = torch.tensor([2.0, -2.0, 1.0, 1.0, -1.0])
    # min(1, 1.6), min(-1, -1.6), min(1.1, 1.1), min(1.5, 1.28), min(-1.5, -1.28), each negated.
    expected = torch.tensor([-1.0, 1.6, -1.1, -1.28, 1.5])
    assert torch.allclose(clipped_surrogate(ratio, advantages, 0.2, 0.28), expected)


def test_clipped_by_hand() -> None:
    values, gradient = value_and_gradient("clipped", row_terms(POWERS, ADVANTAGES))
    # min(2, 1.28), min(.5, .8), min(-2, -1.28), min(2, 2), min(.5, 1.6), each negated.
    assert values == pytest.approx([-1.28, -0.5, 2.0, -2.0, -0.5])
    # -r A where the ratio is not clipped.
    assert gradient == pytest.approx([0.0, -0.5, 2.0, -2.0, -0.5])


def test_dual_clip_bounds_what_a_bad_token_that_became_likely_can_cost() -> None:
    values, gradient = value_and_gradient("dual_clip", row_terms(POWERS, ADVANTAGES))
    # The third: max(min(-2, -1.28), -1.5) = -1.5, a constant.
    assert values == pytest.approx([-1.28, -0.5, 1.5, -2.0, -0.5])
    assert gradient == pytest.approx([0.0, -0.5, 0.0, -2.0, -0.5])


def test_cispo_weighs_by_the_clipped_ratio_and_no_token_loses_its_gradient() -> None:
    values, gradient = value_and_gradient("cispo", row_terms(POWERS, ADVANTAGES))
    weights = [1.28, 0.8, 1.28, 1.0, 0.8]
    logprobs = [-3 + LN2 * power for power in POWERS]
    terms = list(zip(weights, ADVANTAGES, logprobs, strict=True))
    assert values == pytest.approx([-weight * advantage * logprob for weight, advantage, logprob in terms])
    assert gradient == pytest.approx([-weight * advantage for weight, advantage, _ in terms])


def test_cispo_has_no_lower_bound_where_low_is_one() -> None:
    _, gradient = value_and_gradient("cispo", row_terms(POWERS, ADVANTAGES), Clip(low=1.0, high=4.0))
    assert gradient == pytest.approx([-2.0, -0.5, 2.0, -2.0, -0.5])


def test_gspo_has_one_ratio_per_row_whose_exponent_is_a_mean_over_action_tokens() -> None:
    ratio = 2 ** (-1 / 5)  # powers 1 - 1 + 1 + 0 - 2 over K = 5 tokens, not over the row's 13
    values, gradient = value_and_gradient("gspo", row_terms(POWERS, ADVANTAGES))
    assert values == pytest.approx([-ratio * advantage for advantage in ADVANTAGES])
    # Each token moves the ratio by ratio / 5, and the ratio meets the sum of the advantages, 5.
    assert gradient == pytest.approx([-ratio] * 5)


def test_gspo_clips_the_row_as_a_whole() -> None:
    values, gradient = value_and_gradient("gspo", row_terms([1.0, 1.0, 1.0, 0.0, 2.0], [1.0] * 5))
    assert values == pytest.approx([-1.28] * 5)  # the ratio is 2
    assert gradient == [0.0] * 5


def test_gspo_token_gives_each_token_the_gradient_of_its_own_advantage() -> None:
    ratio = 2 ** (-1 / 5)
    values, gradient = value_and_gradient("gspo_token", row_terms(POWERS, ADVANTAGES))
    assert values == pytest.approx([-ratio * advantage for advantage in ADVANTAGES])
    assert gradient == pytest.approx([-ratio * advantage for advantage in ADVANTAGES])


def test_both_forms_of_gspo_are_the_same_where_a_row_has_one_advantage() -> None:
    for advantage in (1.5, -0.5):
        terms = row_terms(POWERS, [advantage] * 5)
        plain, token = (value_and_gradient(name, terms) for name in ("gspo", "gspo_token"))
        assert plain[0] == pytest.approx(token[0])
        assert plain[1] == pytest.approx(token[1])


def test_turn_has_one_length_normalised_ratio_per_turn() -> None:
    # Powers 1 - 1 over 2 tokens, 1 over 1, 0 - 2 over 2: ratios 1, 2, 1/2.
    values, gradient = value_and_gradient("turn", row_terms(POWERS, ADVANTAGES))
    # min(1, 1) twice, min(-2, -1.28), min(1, 1.6) twice, each negated.
    assert values == pytest.approx([-1.0, -1.0, 2.0, -1.0, -1.0])
    # Each token of a turn moves its ratio by ratio / n, and the ratio meets the advantages of n tokens.
    assert gradient == pytest.approx([-1.0, -1.0, 2.0, -1.0, -1.0])


def test_what_the_trust_region_touched_is_told() -> None:
    found = SURROGATES.get("dual_clip")(row_terms([1.0, -1.0, 1.0, -1.0, 1.0], [1.0, 1.0, -1.0, -1.0, -1.0]), CLIP)
    at_tokens = {name: where[ROW_LAYOUT.mask].tolist() for name, where in found.clipped.items()}
    assert at_tokens == {
        "clipped_low": [False, False, False, True, False],
        "clipped_high": [True, False, False, False, False],
        "clipped_dual": [False, False, True, False, True],
    }


@pytest.mark.parametrize("name", ["clipped", "dual_clip", "gspo", "turn"])
def test_gradients_are_those_of_finite_differences(name: str) -> None:
    generator = torch.Generator().manual_seed(3)
    old, advantages = (torch.randn(ACTIONS.shape, generator=generator, dtype=torch.double) for _ in range(2))
    old, advantages = old.masked_fill(~ACTIONS, 0), advantages.masked_fill(~ACTIONS, 0)

    def summed(logprobs: Tensor) -> Tensor:
        terms = PolicyTerms(logprobs.masked_fill(~ACTIONS, 0), old, advantages, LAYOUT)
        return SURROGATES.get(name)(terms, CLIP).per_token[ACTIONS].sum()

    start = (old + 0.3 * torch.randn(ACTIONS.shape, generator=generator, dtype=torch.double)).requires_grad_()
    assert torch.autograd.gradcheck(summed, (start,))


@given(st.sampled_from(sorted(SURROGATES)), st.lists(st.floats(-2, 2), min_size=5, max_size=5))
def test_on_policy_every_surrogate_is_the_policy_gradient(name: str, advantages: list[float]) -> None:
    # The ratios are 1. GSPO shares a row's advantages among its tokens, "turn" a turn's; the sum is the same.
    _, own = value_and_gradient(name, row_terms([0.0] * 5, advantages))
    assert sum(own) == pytest.approx(-sum(advantages), abs=1e-9)
