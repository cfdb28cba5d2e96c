from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from agent_envs.errors import UnknownNameError
from agent_trainer.losses import (
    AGGREGATIONS,
    KL_ESTIMATORS,
    Denominators,
    LossInputs,
    LossSettings,
    clipped_surrogate,
    loss_mask,
    policy_loss,
    truncated_token_weights,
)

# Two rows of three turns each with observations of very different lengths between them; True = the policy's tokens.
ACTIONS = torch.tensor(
    [
        [True, True, False, False, False, False, False, True, False, True, True, False],
        [True, False, True, False, True, False, False, False, False, False, False, False],
    ]
)
COMPLETION = torch.tensor([[1] * 11 + [0], [1] * 6 + [0] * 6])
VOCAB = 7


def denominators(mask: Tensor) -> Denominators:
    return Denominators(tokens=mask.sum().double(), sequences=mask.any(dim=1).sum().double())


def random_inputs(seed: int = 0, mask: Tensor = ACTIONS) -> tuple[Tensor, Tensor, LossInputs]:
    """Logits ``[B, T, V]`` that require a gradient, ids ``[B, T]``, and the inputs made of them."""
    random = torch.Generator().manual_seed(seed)
    logits = torch.randn(*mask.shape, VOCAB, generator=random, dtype=torch.double).requires_grad_()
    ids = torch.randint(VOCAB, mask.shape, generator=random)
    logprobs = logits.log_softmax(-1).gather(-1, ids[..., None])[..., 0]

    def near(scale: float) -> Tensor:
        noise = torch.randn(mask.shape, generator=random, dtype=torch.double)
        return (logprobs.detach() + scale * noise).clamp(max=0)

    inputs = LossInputs(
        logprobs=logprobs,
        advantages=torch.randn(mask.shape, generator=random, dtype=torch.double),
        mask=mask,
        old_logprobs=near(0.4),
        ref_logprobs=near(0.6),
        sampler_logprobs=near(0.5),
        entropy=-(logits.softmax(-1) * logits.log_softmax(-1)).sum(-1),
    )
    return logits, ids, inputs


SETTINGS = LossSettings(clip_low=0.2, clip_high=0.28, kl_coef=0.1, entropy_coef=0.01, max_tokens=16)


def test_the_clipped_surrogate_by_hand() -> None:
    ratio = torch.tensor([0.5, 0.5, 1.1, 1.5, 1.5])
    advantages = torch.tensor([2.0, -2.0, 1.0, 1.0, -1.0])
    # min(1, 1.6), min(-1, -1.6), min(1.1, 1.1), min(1.5, 1.28), min(-1.5, -1.28), each negated.
    expected = torch.tensor([-1.0, 1.6, -1.1, -1.28, 1.5])
    assert torch.allclose(clipped_surrogate(ratio, advantages, 0.2, 0.28), expected)


def test_the_kl_estimators_by_hand() -> None:
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


def test_the_aggregations_by_hand() -> None:
    per_token = torch.tensor([[1.0, 2.0, 9.0, 3.0], [4.0, 9.0, 9.0, 9.0]])
    mask = torch.tensor([[True, True, False, True], [True, False, False, False]])
    counts = denominators(mask)
    assert AGGREGATIONS.get("token")(per_token, mask, counts, 8.0).item() == pytest.approx(10 / 4)
    assert AGGREGATIONS.get("sequence")(per_token, mask, counts, 8.0).item() == pytest.approx((2 + 4) / 2)
    assert AGGREGATIONS.get("constant")(per_token, mask, counts, 8.0).item() == pytest.approx(10 / (2 * 8))


def test_importance_weights_are_truncated_and_one_where_the_sampler_is_silent() -> None:
    old, mu = torch.tensor([-1.0, -1.0, -1.0, -1.0]), torch.tensor([-1.0, -0.5, -9.0, math.nan])
    weights = truncated_token_weights(old.requires_grad_(), mu, 2.0)
    assert weights.tolist() == pytest.approx([1.0, math.exp(-0.5), 2.0, 1.0])
    assert not weights.requires_grad


def reference_loss(logits: Tensor, ids: Tensor, inputs: LossInputs, settings: LossSettings) -> Tensor:
    """The same loss, token by token in plain Python, with nothing of the project's in it."""
    rows = []
    for b in range(ids.shape[0]):
        terms = []
        for t in range(ids.shape[1]):
            if not inputs.mask[b, t]:
                continue
            p = torch.exp(logits[b, t] - logits[b, t].max())
            p = p / p.sum()
            logp = torch.log(p[ids[b, t]])
            ratio = torch.exp(logp - inputs.old_logprobs[b, t])
            advantage = inputs.advantages[b, t]
            low, high = 1 - settings.clip_low, 1 + settings.clip_high
            clipped = ratio if low <= ratio <= high else torch.tensor(low if ratio < low else high)
            gain = min(ratio * advantage, clipped * advantage)
            weight = min(
                math.exp(inputs.old_logprobs[b, t] - inputs.sampler_logprobs[b, t]), settings.max_importance_weight
            )
            r = torch.exp(inputs.ref_logprobs[b, t] - logp)
            kl = r - torch.log(r) - 1
            entropy = -sum(x * torch.log(x) for x in p)
            terms.append(-weight * gain + settings.kl_coef * kl - settings.entropy_coef * entropy)
        rows.append(terms)
    everything = [term for terms in rows for term in terms]
    if settings.aggregation == "token":
        return sum(everything) / len(everything)
    if settings.aggregation == "sequence":
        return sum(sum(terms) / len(terms) for terms in rows) / len(rows)
    return sum(everything) / (len(rows) * settings.max_tokens)


@pytest.mark.parametrize("aggregation", ["token", "sequence", "constant"])
@pytest.mark.parametrize("only_actions", [True, False], ids=["loss_mask", "no_loss_mask"])
def test_the_loss_and_its_gradient_equal_an_independent_computation(aggregation: str, only_actions: bool) -> None:
    mask = loss_mask(ACTIONS, COMPLETION, only_actions=only_actions)
    settings = replace(SETTINGS, aggregation=aggregation)
    logits, ids, inputs = random_inputs(mask=mask)
    found = policy_loss(inputs, settings, denominators(mask)).loss
    expected = reference_loss(logits, ids, inputs, settings)
    assert found.item() == pytest.approx(expected.item(), abs=1e-6)
    (gradient,) = torch.autograd.grad(found, logits, retain_graph=True)
    (expected_gradient,) = torch.autograd.grad(expected, logits)
    assert torch.allclose(gradient, expected_gradient, atol=1e-6)


@pytest.mark.parametrize("aggregation", ["token", "sequence", "constant"])
def test_the_gradient_at_the_environments_tokens_is_exactly_zero(aggregation: str) -> None:
    logits, _, inputs = random_inputs()
    policy_loss(inputs, replace(SETTINGS, aggregation=aggregation), denominators(ACTIONS)).loss.backward()
    assert (logits.grad[~ACTIONS] == 0).all()
    assert (logits.grad[ACTIONS] != 0).any(dim=-1).all()


def test_without_the_loss_mask_the_environments_tokens_are_trained_and_padding_is_not() -> None:
    mask = loss_mask(ACTIONS, COMPLETION, only_actions=False)
    logits, _, inputs = random_inputs(mask=mask)
    policy_loss(inputs, SETTINGS, denominators(mask)).loss.backward()
    environment = COMPLETION.bool() & ~ACTIONS
    assert (logits.grad[environment] != 0).any(dim=-1).all()
    assert (logits.grad[~COMPLETION.bool()] == 0).all()


def test_what_stands_at_the_environments_tokens_changes_nothing_even_nan() -> None:
    logits, ids, inputs = random_inputs()
    found = policy_loss(inputs, SETTINGS, denominators(ACTIONS))
    other_ids = torch.where(ACTIONS, ids, (ids + 3) % VOCAB)
    nan = torch.tensor(math.nan, dtype=torch.double)
    changed = LossInputs(
        logprobs=logits.log_softmax(-1).gather(-1, other_ids[..., None])[..., 0],
        advantages=inputs.advantages.where(ACTIONS, nan),
        mask=ACTIONS,
        old_logprobs=inputs.old_logprobs.where(ACTIONS, nan),
        ref_logprobs=inputs.ref_logprobs.where(ACTIONS, nan),
        sampler_logprobs=inputs.sampler_logprobs.where(ACTIONS, nan),
        entropy=inputs.entropy.where(ACTIONS, nan),
    )
    same = policy_loss(changed, SETTINGS, denominators(ACTIONS))
    assert same.loss.item() == found.loss.item()
    assert {k: v.item() for k, v in same.sums.items()} == {k: v.item() for k, v in found.sums.items()}
    gradients = [torch.autograd.grad(result.loss, logits, retain_graph=True)[0] for result in (found, same)]
    assert torch.allclose(*gradients, rtol=0, atol=1e-15)


def test_an_empty_batch_gives_a_zero_that_is_attached_to_the_graph() -> None:
    nothing = torch.zeros_like(ACTIONS)
    logits, _, inputs = random_inputs(mask=nothing)
    loss = policy_loss(inputs, SETTINGS, denominators(nothing)).loss
    assert loss.item() == 0
    loss.backward()
    assert (logits.grad == 0).all()


def test_the_ratio_is_one_where_no_old_logprobs_are_given() -> None:
    _, _, inputs = random_inputs()
    settings = LossSettings(importance_correction="none")
    alone = policy_loss(LossInputs(inputs.logprobs, inputs.advantages, ACTIONS), settings, denominators(ACTIONS))
    assert alone.loss.item() == pytest.approx(-inputs.advantages[ACTIONS].mean().item())
    assert alone.sums["clipped_low"] == alone.sums["clipped_high"] == 0


@given(st.integers(0, 1000), st.sampled_from(["token", "sequence", "constant"]), st.integers(1, 4))
def test_padding_and_the_order_of_rows_do_not_matter(seed: int, aggregation: str, extra: int) -> None:
    settings = replace(SETTINGS, aggregation=aggregation)
    _, _, inputs = random_inputs(seed)
    plain = policy_loss(inputs, settings, denominators(ACTIONS)).loss

    def moved(tensor: Tensor) -> Tensor:
        wide = torch.nn.functional.pad(tensor, (0, extra, 0, extra))  # columns and rows of weight zero
        return wide.flip(0)

    names = ("logprobs", "advantages", "mask", "old_logprobs", "ref_logprobs", "sampler_logprobs", "entropy")
    padded = LossInputs(**{name: moved(getattr(inputs, name)) for name in names})
    assert policy_loss(padded, settings, denominators(padded.mask)).loss.item() == pytest.approx(
        plain.item(), abs=1e-12
    )


@given(st.integers(0, 1000), st.sampled_from(["token", "sequence", "constant"]))
def test_the_shares_of_micro_batches_add_up_to_the_loss_of_the_window(seed: int, aggregation: str) -> None:
    settings = replace(SETTINGS, aggregation=aggregation)
    _, _, inputs = random_inputs(seed)
    whole = denominators(ACTIONS)
    names = ("logprobs", "advantages", "mask", "old_logprobs", "ref_logprobs", "sampler_logprobs", "entropy")
    shares = [
        policy_loss(LossInputs(**{name: getattr(inputs, name)[row : row + 1] for name in names}), settings, whole).loss
        for row in range(2)
    ]
    assert sum(shares).item() == pytest.approx(policy_loss(inputs, settings, whole).loss.item(), abs=1e-12)


def test_the_sums_for_the_log_are_sums_over_the_masked_tokens() -> None:
    _, _, inputs = random_inputs()
    result = policy_loss(inputs, SETTINGS, denominators(ACTIONS))
    assert result.tokens.item() == 8
    assert result.sums["entropy"].item() == pytest.approx(inputs.entropy[ACTIONS].sum().item())
    gap = (inputs.old_logprobs - inputs.sampler_logprobs)[ACTIONS].abs().sum()
    assert result.sums["logprob_gap"].item() == pytest.approx(gap.item())
    assert not any(value.requires_grad for value in result.sums.values())


@pytest.mark.parametrize(
    "field", ["aggregation", "kl_estimator", "importance_correction"], ids=["aggregation", "kl", "correction"]
)
def test_an_unknown_part_is_an_error_that_lists_the_known_ones(field: str) -> None:
    _, _, inputs = random_inputs()
    with pytest.raises(UnknownNameError, match="known:"):
        policy_loss(inputs, replace(SETTINGS, **{field: "nope"}), denominators(ACTIONS))
