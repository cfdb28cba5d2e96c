"""Tests of the way from logits to tokens, against distributions worked out in numpy."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from agent_trainer.sampler.base import SamplingParams
from agent_trainer.sampler.sampling import check_sampling_params, draw_tokens, sampling_logprobs

LOGITS = torch.log(torch.tensor([[0.5, 0.25, 0.15, 0.06, 0.04], [0.04, 0.06, 0.15, 0.25, 0.5]]))


def test_temperature_sharpens_as_a_power_of_the_probabilities() -> None:
    expected = np.array([0.5, 0.25, 0.15, 0.06, 0.04]) ** (1 / 0.5)
    expected /= expected.sum()
    got = sampling_logprobs(LOGITS, SamplingParams(temperature=0.5)).exp()[0].numpy()
    np.testing.assert_allclose(got, expected, rtol=1e-5)


def test_top_k_keeps_exactly_k_and_renormalises() -> None:
    got = sampling_logprobs(LOGITS, SamplingParams(top_k=2)).exp()
    np.testing.assert_allclose(got[0].numpy(), [2 / 3, 1 / 3, 0, 0, 0], rtol=1e-5)
    np.testing.assert_allclose(got[1].numpy(), [0, 0, 0, 1 / 3, 2 / 3], rtol=1e-5)
    tied = sampling_logprobs(torch.zeros(1, 6), SamplingParams(top_k=2))
    assert int((tied > -math.inf).sum()) == 2


@pytest.mark.parametrize(("top_p", "kept"), [(0.4, 1), (0.5, 1), (0.6, 2), (0.75, 2), (0.8, 3), (0.93, 4), (1.0, 5)])
def test_top_p_keeps_the_smallest_set_that_reaches_it(top_p: float, kept: int) -> None:
    probabilities = torch.tensor([[0.5, 0.25, 0.125, 0.0625, 0.0625]])
    got = sampling_logprobs(probabilities.log(), SamplingParams(top_p=top_p)).exp()[0].numpy()
    expected = np.where(np.arange(5) < kept, probabilities[0].numpy(), 0)
    np.testing.assert_allclose(got, expected / expected.sum(), rtol=1e-5)


def test_top_p_works_within_what_top_k_kept() -> None:
    # After top_k = 2 the two hold 2/3 and 1/3, so the first alone reaches .6; with all five, .5 would not.
    got = sampling_logprobs(LOGITS, SamplingParams(top_k=2, top_p=0.6)).exp()[0].numpy()
    np.testing.assert_allclose(got, [1, 0, 0, 0, 0])


def test_zero_temperature_takes_the_likeliest_with_its_untempered_logprob() -> None:
    ids, logprobs = draw_tokens(LOGITS, SamplingParams(temperature=0.0), torch.zeros(2, dtype=torch.float64))
    assert ids.tolist() == [0, 4]
    np.testing.assert_allclose(logprobs.numpy(), math.log(0.5), rtol=1e-6)


@pytest.mark.parametrize("params", [SamplingParams(), SamplingParams(temperature=0.7, top_k=4, top_p=0.9)])
def test_frequencies_follow_the_distribution_that_the_logprobs_state(params: SamplingParams) -> None:
    count = 20_000
    uniforms = torch.from_numpy(np.random.default_rng(5).random(count))
    ids, logprobs = draw_tokens(LOGITS[:1].expand(count, -1), params, uniforms)
    expected = sampling_logprobs(LOGITS[:1], params)[0]
    frequencies = np.bincount(ids.numpy(), minlength=5) / count
    np.testing.assert_allclose(frequencies, expected.exp().numpy(), atol=0.012)
    np.testing.assert_allclose(logprobs.numpy(), expected[ids].numpy())


@pytest.mark.parametrize("uniform", [0.0, 0.5, 1 - 2**-53])
def test_a_token_without_probability_is_never_drawn(uniform: float) -> None:
    logits = torch.full((1, 7), -math.inf)
    logits[0, [2, 4]] = 0.0
    ids, _ = draw_tokens(logits, SamplingParams(), torch.tensor([uniform], dtype=torch.float64))
    assert ids.item() in (2, 4)


@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_diverged_logits_raise_and_name_the_row(bad: float, temperature: float) -> None:
    logits = torch.zeros(3, 4)
    logits[1, 2] = bad
    with pytest.raises(FloatingPointError, match=r"row\(s\) \[1\]"):
        draw_tokens(logits, SamplingParams(temperature=temperature), torch.full((3,), 0.5, dtype=torch.float64))


@pytest.mark.parametrize(
    "params",
    [
        SamplingParams(temperature=-1),
        SamplingParams(temperature=math.nan),
        SamplingParams(top_k=-1),
        SamplingParams(top_p=0),
        SamplingParams(top_p=1.5),
    ],
)
def test_values_out_of_range_are_refused(params: SamplingParams) -> None:
    with pytest.raises(ValueError, match="must be"):
        check_sampling_params(params)
