from __future__ import annotations

import math
from dataclasses import fields, replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from agent_envs.errors import UnknownNameError
from agent_trainer.losses import (
    AGGREGATIONS,
    SURROGATES,
    Clip,
    Denominators,
    LossInputs,
    LossSettings,
    TokenLayout,
    loss_mask,
    policy_loss,
)
from tests.agent_trainer.losses.three_turns import ACTIONS, COMPLETION, EPISODES, LAYOUT, TURN_IDS

VOCAB = 7
ALL = TokenLayout.of_rows(loss_mask(ACTIONS, COMPLETION, only_actions=False), TURN_IDS, EPISODES)
SETTINGS = LossSettings(clip=Clip(0.2, 0.28), kl_coef=0.1, entropy_coef=0.01, max_tokens=16)


def random_inputs(seed: int = 0, layout: TokenLayout = LAYOUT) -> tuple[Tensor, Tensor, LossInputs]:
    """Logits ``[B, T, V]`` that require a gradient, ids ``[B, T]``, and the inputs made of them."""
    random = torch.Generator().manual_seed(seed)
    shape = layout.mask.shape
    logits = torch.randn(*shape, VOCAB, generator=random, dtype=torch.double).requires_grad_()
    ids = torch.randint(VOCAB, shape, generator=random)
    logprobs = logits.log_softmax(-1).gather(-1, ids[..., None])[..., 0]

    def near(scale: float) -> Tensor:
        noise = torch.randn(shape, generator=random, dtype=torch.double)
        return (logprobs.detach() + scale * noise).clamp(max=0)

    inputs = LossInputs(
        logprobs=logprobs,
        advantages=torch.randn(shape, generator=random, dtype=torch.double),
        layout=layout,
        old_logprobs=near(0.4),
        ref_logprobs=near(0.6),
        sampler_logprobs=near(0.5),
        entropy=-(logits.softmax(-1) * logits.log_softmax(-1)).sum(-1),
    )
    return logits, ids, inputs


def rows_of(inputs: LossInputs, rows: list[int]) -> LossInputs:
    """A micro-batch: the rows of every tensor."""
    layout = TokenLayout(
        *(getattr(inputs.layout, name)[rows] for name in ("mask", "turn_ids", "episode_tokens")),
    )
    tensors = {f.name: getattr(inputs, f.name)[rows] for f in fields(inputs) if f.name != "layout"}
    return LossInputs(layout=layout, **tensors)


def reference_loss(logits: Tensor, ids: Tensor, inputs: LossInputs, settings: LossSettings) -> Tensor:
    """The clipped loss, token by token in plain Python, with nothing of the project's in it."""
    terms: dict[tuple[int, int], Tensor] = {}
    for b in range(ids.shape[0]):
        for t in range(ids.shape[1]):
            if not inputs.layout.mask[b, t]:
                continue
            p = torch.exp(logits[b, t] - logits[b, t].max())
            p = p / p.sum()
            logp = torch.log(p[ids[b, t]])
            ratio = torch.exp(logp - inputs.old_logprobs[b, t])
            advantage = inputs.advantages[b, t]
            low, high = 1 - settings.clip.low, 1 + settings.clip.high
            clipped = ratio if low <= ratio <= high else torch.tensor(low if ratio < low else high)
            gain = min(ratio * advantage, clipped * advantage)
            weight = min(math.exp(inputs.old_logprobs[b, t] - inputs.sampler_logprobs[b, t]), 2.0)
            r = torch.exp(inputs.ref_logprobs[b, t] - logp)
            kl = r - torch.log(r) - 1
            entropy = -sum(x * torch.log(x) for x in p)
            terms[b, t] = -weight * gain + settings.kl_coef * kl - settings.entropy_coef * entropy
    key = {
        "token": lambda b, t: (b, t),
        "sequence": lambda b, t: b,
        "turn": lambda b, t: (b, int(TURN_IDS[b, t])),
        "episode": lambda b, t: int(EPISODES[b]),
        "constant": lambda b, t: b,
    }[settings.aggregation]
    parts: dict[object, list[Tensor]] = {}
    for (b, t), term in terms.items():
        parts.setdefault(key(b, t), []).append(term)
    if settings.aggregation == "constant":
        return sum(terms.values()) / (len(parts) * settings.max_tokens)
    return sum(sum(part) / len(part) for part in parts.values()) / len(parts)


@pytest.mark.parametrize("aggregation", sorted(AGGREGATIONS))
@pytest.mark.parametrize("layout", [LAYOUT, ALL], ids=["loss_mask", "no_loss_mask"])
def test_the_loss_and_its_gradient_equal_an_independent_computation(aggregation: str, layout: TokenLayout) -> None:
    settings = replace(SETTINGS, aggregation=aggregation)
    logits, ids, inputs = random_inputs(layout=layout)
    found = policy_loss(inputs, settings, Denominators.count(layout)).loss
    expected = reference_loss(logits, ids, inputs, settings)
    assert found.item() == pytest.approx(expected.item(), abs=1e-6)
    (gradient,) = torch.autograd.grad(found, logits, retain_graph=True)
    (expected_gradient,) = torch.autograd.grad(expected, logits)
    assert torch.allclose(gradient, expected_gradient, atol=1e-6)


@pytest.mark.parametrize("surrogate", sorted(SURROGATES))
@pytest.mark.parametrize("aggregation", sorted(AGGREGATIONS))
@pytest.mark.parametrize("correction", ["token", "sequence"])
def test_what_stands_at_the_environments_tokens_changes_nothing_even_nan(
    surrogate: str, aggregation: str, correction: str
) -> None:
    settings = replace(SETTINGS, surrogate=surrogate, aggregation=aggregation, importance_correction=correction)
    logits, ids, inputs = random_inputs()
    found = policy_loss(inputs, settings, Denominators.count(LAYOUT))
    other_ids = torch.where(ACTIONS, ids, (ids + 3) % VOCAB)
    nan = torch.tensor(math.nan, dtype=torch.double)
    changed = LossInputs(
        logprobs=logits.log_softmax(-1).gather(-1, other_ids[..., None])[..., 0],
        layout=LAYOUT,
        **{
            name: getattr(inputs, name).where(ACTIONS, nan)
            for name in ("advantages", "old_logprobs", "ref_logprobs", "sampler_logprobs", "entropy")
        },
    )
    same = policy_loss(changed, settings, Denominators.count(LAYOUT))
    assert same.loss.item() == found.loss.item()
    assert {k: v.item() for k, v in same.sums.items()} == {k: v.item() for k, v in found.sums.items()}
    gradients = [torch.autograd.grad(result.loss, logits, retain_graph=True)[0] for result in (found, same)]
    assert torch.allclose(*gradients, rtol=0, atol=1e-15)
    for gradient in gradients:
        assert (gradient[~ACTIONS] == 0).all()
        assert (gradient[ACTIONS] != 0).any(dim=-1).all()


@pytest.mark.parametrize("surrogate", sorted(SURROGATES))
def test_without_the_loss_mask_the_environments_tokens_are_trained_and_padding_is_not(surrogate: str) -> None:
    logits, _, inputs = random_inputs(layout=ALL)
    policy_loss(inputs, replace(SETTINGS, surrogate=surrogate), Denominators.count(ALL)).loss.backward()
    assert logits.grad is not None
    assert (logits.grad[COMPLETION & ~ACTIONS] != 0).any(dim=-1).all()
    assert (logits.grad[~COMPLETION] == 0).all()


@pytest.mark.parametrize("surrogate", sorted(SURROGATES))
def test_an_empty_batch_gives_a_zero_that_is_attached_to_the_graph(surrogate: str) -> None:
    nothing = TokenLayout.of_rows(torch.zeros_like(ACTIONS), TURN_IDS, EPISODES)
    logits, _, inputs = random_inputs(layout=nothing)
    loss = policy_loss(inputs, replace(SETTINGS, surrogate=surrogate), Denominators.count(nothing)).loss
    assert loss.item() == 0
    loss.backward()
    assert (logits.grad == 0).all()


def test_the_ratio_is_one_where_no_old_logprobs_are_given() -> None:
    _, _, inputs = random_inputs()
    settings = LossSettings(importance_correction="none")
    alone = policy_loss(LossInputs(inputs.logprobs, inputs.advantages, LAYOUT), settings, Denominators.count(LAYOUT))
    assert alone.loss.item() == pytest.approx(-inputs.advantages[ACTIONS].mean().item())
    assert alone.sums["clipped_low"] == alone.sums["clipped_high"] == 0


NAMES = (st.sampled_from(sorted(SURROGATES)), st.sampled_from(sorted(AGGREGATIONS)))


@given(st.integers(0, 1000), *NAMES, st.integers(1, 4))
def test_padding_and_the_order_of_rows_do_not_matter(seed: int, surrogate: str, aggregation: str, extra: int) -> None:
    settings = replace(SETTINGS, surrogate=surrogate, aggregation=aggregation, importance_correction="sequence")
    _, _, inputs = random_inputs(seed)
    plain = policy_loss(inputs, settings, Denominators.count(LAYOUT)).loss

    def moved(tensor: Tensor, fill: float = 0) -> Tensor:
        wide = torch.nn.functional.pad(tensor, (0, extra, 0, extra), value=fill)  # columns and rows of weight zero
        return wide.flip(0)

    episodes = torch.nn.functional.pad(EPISODES, (0, extra), value=-1).flip(0)
    layout = TokenLayout.of_rows(moved(ACTIONS), moved(TURN_IDS, -1), episodes)
    tensors = {f.name: moved(getattr(inputs, f.name)) for f in fields(inputs) if f.name != "layout"}
    padded = policy_loss(LossInputs(layout=layout, **tensors), settings, Denominators.count(layout)).loss
    assert padded.item() == pytest.approx(plain.item(), abs=1e-12)


@given(st.integers(0, 1000), *NAMES, st.lists(st.integers(0, 3), min_size=4, max_size=4))
def test_the_shares_of_micro_batches_add_up_to_the_loss_of_the_window(
    seed: int, surrogate: str, aggregation: str, part_of: list[int]
) -> None:
    settings = replace(SETTINGS, surrogate=surrogate, aggregation=aggregation, importance_correction="sequence")
    _, _, inputs = random_inputs(seed)
    whole = Denominators.count(LAYOUT)
    parts = [rows for part in range(4) if (rows := [row for row, of in enumerate(part_of) if of == part])]
    shares = [policy_loss(rows_of(inputs, rows), settings, whole).loss for rows in parts]
    assert sum(shares).item() == pytest.approx(policy_loss(inputs, settings, whole).loss.item(), abs=1e-12)


def test_the_sums_for_the_log_are_sums_over_the_masked_tokens() -> None:
    _, _, inputs = random_inputs()
    settings = replace(SETTINGS, importance_limit="mask", importance_bounds=(0.8, 1.25))
    result = policy_loss(inputs, settings, Denominators.count(LAYOUT))
    gap = (inputs.old_logprobs - inputs.sampler_logprobs)[ACTIONS].detach()
    kept = (gap.exp() >= 0.8) & (gap.exp() <= 1.25)
    assert result.tokens.item() == 11
    assert result.sums["entropy"].item() == pytest.approx(inputs.entropy[ACTIONS].sum().item())
    assert result.sums["logprob_gap"].item() == pytest.approx(gap.abs().sum().item())
    assert result.sums["importance_dropped"].item() == (~kept).sum().item() > 0
    assert result.sums["importance_weight"].item() == pytest.approx(gap.exp()[kept].sum().item())
    assert not any(value.requires_grad for value in result.sums.values())


@pytest.mark.parametrize(
    "field", ["surrogate", "aggregation", "kl_estimator", "importance_correction", "importance_limit"]
)
def test_an_unknown_part_is_an_error_that_lists_the_known_ones(field: str) -> None:
    _, _, inputs = random_inputs()
    with pytest.raises(UnknownNameError, match="known:"):
        policy_loss(inputs, replace(SETTINGS, **{field: "nope"}), Denominators.count(LAYOUT))
