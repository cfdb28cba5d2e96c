"""The policy's loss: a surrogate, the sampler's correction, KL and entropy, aggregated."""

from __future__ import annotations

from dataclasses import dataclass, field

from torch import Tensor

from agent_trainer.losses.aggregations import AGGREGATIONS
from agent_trainer.losses.importance import IMPORTANCE_CORRECTIONS, IMPORTANCE_LIMITS, importance_weights
from agent_trainer.losses.kl import KL_ESTIMATORS
from agent_trainer.losses.layout import Denominators, TokenLayout, masked
from agent_trainer.losses.surrogates import SURROGATES, Clip, PolicyTerms


@dataclass(frozen=True, slots=True)
class LossInputs:
    """What one micro-batch brings, ``[B, T]`` over completion tokens.

    What lies outside the layout's mask enters no number and gets a gradient of exactly zero, even where it is NaN.

    Attributes:
        logprobs: of the tokens under the policy at hand; carries the gradient.
        advantages: float.
        layout: where the loss looks, and what the tokens there belong to.
        old_logprobs: under the policy before the update; None where it is the policy at hand.
        ref_logprobs: under the reference model; None without a KL term.
        sampler_logprobs: as the sampler gave them, NaN where unknown; None without a correction.
        entropy: of the distribution each token was drawn from; None without a bonus.
    """

    logprobs: Tensor
    advantages: Tensor
    layout: TokenLayout
    old_logprobs: Tensor | None = None
    ref_logprobs: Tensor | None = None
    sampler_logprobs: Tensor | None = None
    entropy: Tensor | None = None


@dataclass(frozen=True, slots=True)
class LossSettings:
    """Which loss.

    Attributes:
        surrogate: a name in ``SURROGATES``.
        clip: its trust region.
        aggregation: a name in ``AGGREGATIONS``.
        kl_coef: weight of the KL term in the loss, >= 0; 0 leaves it out.
        kl_estimator: a name in ``KL_ESTIMATORS``.
        entropy_coef: weight of the entropy bonus; 0 leaves it out.
        importance_correction: a name in ``IMPORTANCE_CORRECTIONS``.
        importance_limit: a name in ``IMPORTANCE_LIMITS``.
        importance_bounds: lowest and highest weight of the correction.
        max_tokens: the constant of the aggregation "constant", > 0.
    """

    surrogate: str = "clipped"
    clip: Clip = field(default_factory=Clip)
    aggregation: str = "token"
    kl_coef: float = 0.0
    kl_estimator: str = "k3"
    entropy_coef: float = 0.0
    importance_correction: str = "token"
    importance_limit: str = "truncate"
    importance_bounds: tuple[float, float] = (0.0, 2.0)
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
    """This micro-batch's share of -J, J = Agg_t[ w_t S_t - beta KL_t + c H_t ].

    S is the surrogate, w the sampler's correction, H the entropy. Source: arXiv 2402.03300, eq. 3, for the clipped S.
    """
    mask = inputs.layout.mask
    logprobs = masked(inputs.logprobs, mask)
    old = logprobs.detach() if inputs.old_logprobs is None else masked(inputs.old_logprobs, mask)
    terms = PolicyTerms(logprobs, old, masked(inputs.advantages, mask), inputs.layout)
    found = SURROGATES.get(settings.surrogate)(terms, settings.clip)
    per_token = found.per_token
    sums = {name: (where & mask).sum() for name, where in found.clipped.items()}
    if inputs.sampler_logprobs is not None:
        gap = masked(old - inputs.sampler_logprobs, mask)
        weights = _weights(gap, mask, settings)
        per_token = per_token * weights
        sums |= {
            "logprob_gap": gap.detach().abs().nan_to_num(0.0).sum(),
            "importance_weight": (weights * mask).sum(),
            "importance_dropped": ((weights == 0) & mask).sum(),
        }
    if inputs.ref_logprobs is not None and settings.kl_coef != 0:
        kl = KL_ESTIMATORS.get(settings.kl_estimator)(logprobs, masked(inputs.ref_logprobs, mask))
        per_token = per_token + settings.kl_coef * kl
        sums["kl"] = kl.detach().sum()
    if inputs.entropy is not None:
        entropy = masked(inputs.entropy, mask)
        per_token = per_token - settings.entropy_coef * entropy if settings.entropy_coef != 0 else per_token
        sums["entropy"] = entropy.detach().sum()
    aggregate = AGGREGATIONS.get(settings.aggregation)
    loss = aggregate(per_token, inputs.layout, denominators, settings.max_tokens)
    return LossResult(loss=loss, tokens=mask.sum(), sums=sums)


def _weights(gap: Tensor, mask: Tensor, settings: LossSettings) -> Tensor:
    return importance_weights(
        gap,
        mask,
        IMPORTANCE_CORRECTIONS.get(settings.importance_correction),
        IMPORTANCE_LIMITS.get(settings.importance_limit),
        settings.importance_bounds,
    )
