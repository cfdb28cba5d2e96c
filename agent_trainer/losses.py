"""The policy's loss, as pure functions of log-probabilities, advantages and masks.

Every tensor is ``[B, T]`` over completion tokens unless it says otherwise. ``mask``, bool, is True where the loss
looks: the policy's own tokens, except in the ablation that trains on the environment's too. What lies elsewhere enters
no number and gets a gradient of exactly zero, even where it is NaN.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from agent_envs.registry import Registry


@dataclass(frozen=True, slots=True)
class Denominators:
    """What sums are divided by: counts over the whole accumulation window and all processes.

    Where gradients are averaged over processes, divide the counts by the number of processes beforehand.

    Attributes:
        tokens: tokens that the loss looks at, 0-d float.
        sequences: rows with at least one of them, 0-d float.
    """

    tokens: Tensor
    sequences: Tensor


@dataclass(frozen=True, slots=True)
class LossInputs:
    """What one micro-batch brings.

    Attributes:
        logprobs: of the tokens under the policy at hand; carries the gradient.
        advantages: float.
        mask: bool, True where the loss looks.
        old_logprobs: under the policy before the update; None where it is the policy at hand.
        ref_logprobs: under the reference model; None without a KL term.
        sampler_logprobs: as the sampler gave them, NaN where unknown; None without a correction.
        entropy: of the distribution each token was drawn from; None without a bonus.
    """

    logprobs: Tensor
    advantages: Tensor
    mask: Tensor
    old_logprobs: Tensor | None = None
    ref_logprobs: Tensor | None = None
    sampler_logprobs: Tensor | None = None
    entropy: Tensor | None = None


@dataclass(frozen=True, slots=True)
class LossSettings:
    """Which loss.

    Attributes:
        clip_low: ratios below 1 - clip_low are clipped.
        clip_high: ratios above 1 + clip_high are clipped.
        aggregation: a name in ``AGGREGATIONS``.
        kl_coef: weight of the KL term, >= 0; 0 leaves it out.
        kl_estimator: a name in ``KL_ESTIMATORS``.
        entropy_coef: weight of the entropy bonus; 0 leaves it out.
        importance_correction: a name in ``IMPORTANCE_CORRECTIONS``.
        max_importance_weight: where the correction truncates, > 0.
        max_tokens: the constant of the aggregation "constant", > 0.
    """

    clip_low: float = 0.2
    clip_high: float = 0.2
    aggregation: str = "token"
    kl_coef: float = 0.0
    kl_estimator: str = "k3"
    entropy_coef: float = 0.0
    importance_correction: str = "token"
    max_importance_weight: float = 2.0
    max_tokens: float = 1024.0


@dataclass(frozen=True, slots=True)
class LossResult:
    """The loss, and sums over the masked tokens for the log (divide by ``tokens``, summed over processes first).

    Attributes:
        loss: 0-d, with the gradient; zero, but attached to the graph, where the mask is empty.
        tokens: how many tokens the mask holds.
        sums: detached 0-d sums by name.
    """

    loss: Tensor
    tokens: Tensor
    sums: dict[str, Tensor]


def policy_loss(inputs: LossInputs, settings: LossSettings, denominators: Denominators) -> LossResult:
    """Clipped surrogate, importance correction, KL and entropy, aggregated.

    J = Agg_t[ w_t min(r_t A_t, clip(r_t) A_t) - beta KL_t + c H_t ], and the loss is -J.
    Source: arXiv 2402.03300, eq. 3.
    """
    mask = inputs.mask
    logprobs = inputs.logprobs.masked_fill(~mask, 0.0)
    old = logprobs.detach() if inputs.old_logprobs is None else inputs.old_logprobs.masked_fill(~mask, 0.0)
    advantages = inputs.advantages.masked_fill(~mask, 0.0)
    ratio = torch.exp(logprobs - old)
    per_token = clipped_surrogate(ratio, advantages, settings.clip_low, settings.clip_high)
    sums = {
        "clipped_low": ((ratio < 1 - settings.clip_low) & (advantages < 0)).sum(),
        "clipped_high": ((ratio > 1 + settings.clip_high) & (advantages > 0)).sum(),
    }
    if inputs.sampler_logprobs is not None:
        mu = inputs.sampler_logprobs.masked_fill(~mask, 0.0)
        correction = IMPORTANCE_CORRECTIONS.get(settings.importance_correction)
        weights = correction(old, mu, settings.max_importance_weight)
        per_token = per_token * weights
        sums |= {
            "logprob_gap": (old - mu).detach().abs().nan_to_num(0.0).sum(),
            "importance_weight": (weights * mask).sum(),
        }
    if inputs.ref_logprobs is not None and settings.kl_coef != 0:
        kl = KL_ESTIMATORS.get(settings.kl_estimator)(logprobs, inputs.ref_logprobs.masked_fill(~mask, 0.0))
        per_token = per_token + settings.kl_coef * kl
        sums["kl"] = kl.detach().sum()
    if inputs.entropy is not None:
        entropy = inputs.entropy.masked_fill(~mask, 0.0)
        per_token = per_token - settings.entropy_coef * entropy if settings.entropy_coef != 0 else per_token
        sums["entropy"] = entropy.detach().sum()
    loss = AGGREGATIONS.get(settings.aggregation)(per_token, mask, denominators, settings.max_tokens)
    return LossResult(loss=loss, tokens=mask.sum(), sums=sums)


def clipped_surrogate(ratio: Tensor, advantages: Tensor, clip_low: float, clip_high: float) -> Tensor:
    """-min(r A, clip(r, 1 - low, 1 + high) A), per token.

    Source: arXiv 1707.06347, eq. 7; separate bounds: arXiv 2503.14476, section 3.1.
    """
    return -torch.min(ratio * advantages, ratio.clamp(1 - clip_low, 1 + clip_high) * advantages)


# KL between the policy and the reference, estimated at the sampled token. Source: J. Schulman, "Approximating KL
# Divergence" (2020); k3 in the loss: arXiv 2402.03300, eq. 4.

KLEstimator = Callable[[Tensor, Tensor], Tensor]


def kl_k1(logprobs: Tensor, ref_logprobs: Tensor) -> Tensor:
    """Unbiased, of either sign: log p - log q. In the loss its gradient is zero on average; meant for rewards."""
    return logprobs - ref_logprobs


def kl_k2(logprobs: Tensor, ref_logprobs: Tensor) -> Tensor:
    """(log p - log q)^2 / 2: biased, never negative; its gradient is that of the reverse KL."""
    return 0.5 * (logprobs - ref_logprobs).square()


def kl_k3(logprobs: Tensor, ref_logprobs: Tensor) -> Tensor:
    """q/p - log(q/p) - 1: unbiased, never negative."""
    difference = ref_logprobs - logprobs
    return torch.exp(difference) - difference - 1


KL_ESTIMATORS: Registry[KLEstimator] = Registry("KL estimator")
KL_ESTIMATORS.register("k1", kl_k1)
KL_ESTIMATORS.register("k2", kl_k2)
KL_ESTIMATORS.register("k3", kl_k3)

# Weights of the sampler's tokens for the learner's policy.

ImportanceCorrection = Callable[[Tensor, Tensor, float], Tensor]


def truncated_token_weights(old_logprobs: Tensor, sampler_logprobs: Tensor, max_weight: float) -> Tensor:
    """min(pi_old / mu, max_weight) per token, without gradient; 1 where the sampler's log-probability is unknown (NaN).

    Source: E. Ionides, "Truncated Importance Sampling" (2008), applied token by token.
    """
    return torch.exp(old_logprobs - sampler_logprobs).detach().nan_to_num(1.0).clamp(max=max_weight)


def no_correction(old_logprobs: Tensor, sampler_logprobs: Tensor, max_weight: float) -> Tensor:
    """Weights of 1: takes the sampler's distribution for the learner's."""
    return torch.ones_like(old_logprobs)


IMPORTANCE_CORRECTIONS: Registry[ImportanceCorrection] = Registry("importance correction")
IMPORTANCE_CORRECTIONS.register("token", truncated_token_weights)
IMPORTANCE_CORRECTIONS.register("none", no_correction)

# From one number per token to one number. Each gives this micro-batch's share: the shares of a window add up.

Aggregation = Callable[[Tensor, Tensor, Denominators, float], Tensor]


def aggregate_by_token(per_token: Tensor, mask: Tensor, denominators: Denominators, max_tokens: float) -> Tensor:
    """The mean over all tokens of the window. Source: arXiv 2503.14476, section 3.3."""
    return _masked(per_token, mask).sum() / denominators.tokens.clamp(min=1.0)


def aggregate_by_sequence(per_token: Tensor, mask: Tensor, denominators: Denominators, max_tokens: float) -> Tensor:
    """The mean over the tokens of each row, then over the window's rows. Source: arXiv 2402.03300, eq. 3."""
    per_row = _masked(per_token, mask).sum(dim=1) / mask.sum(dim=1).clamp(min=1)
    return per_row.sum() / denominators.sequences.clamp(min=1.0)


def aggregate_by_constant(per_token: Tensor, mask: Tensor, denominators: Denominators, max_tokens: float) -> Tensor:
    """The sum over tokens, divided by the window's rows and a stated length. Source: arXiv 2503.20783, section 3.2."""
    return _masked(per_token, mask).sum() / (denominators.sequences.clamp(min=1.0) * max_tokens)


def _masked(per_token: Tensor, mask: Tensor) -> Tensor:
    return per_token.masked_fill(~mask, 0.0)


AGGREGATIONS: Registry[Aggregation] = Registry("loss aggregation")
AGGREGATIONS.register("token", aggregate_by_token)
AGGREGATIONS.register("sequence", aggregate_by_sequence)
AGGREGATIONS.register("constant", aggregate_by_constant)


def loss_mask(action_mask: Tensor, completion_mask: Tensor, *, only_actions: bool) -> Tensor:
    """Where the loss looks, bool ``[B, T]``: the policy's tokens, or every completion token.

    The second is the ablation "without the loss mask" of arXiv 2511.14460: the environment's text is trained on as if
    the policy had written it.
    """
    return action_mask if only_actions else completion_mask.bool()
