"""Surrogates of the policy gradient: per-token losses ``[B, T]`` from log-probabilities and advantages.

Each is a ratio (per token, per sequence, per turn) and what is done where it leaves the trust region. Ratios are of the
policy at hand over the policy before the update, at masked tokens alone: the environment's tokens are in no mean.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from agent_envs.registry import Registry
from agent_trainer.losses.layout import TokenLayout, mean_over_row, mean_over_turn


@dataclass(frozen=True, slots=True)
class PolicyTerms:
    """What a surrogate reads, zero outside the layout's mask.

    Attributes:
        logprobs: ``[B, T]``, under the policy at hand; carries the gradient.
        old_logprobs: ``[B, T]``, under the policy before the update.
        advantages: ``[B, T]``.
        layout: of the tokens.
    """

    logprobs: Tensor
    old_logprobs: Tensor
    advantages: Tensor
    layout: TokenLayout

    @property
    def log_ratio(self) -> Tensor:
        """``[B, T]``: log pi - log pi_old, per token."""
        return self.logprobs - self.old_logprobs


@dataclass(frozen=True, slots=True)
class Clip:
    """The trust region.

    Attributes:
        low: ratios below 1 - low are outside.
        high: ratios above 1 + high are outside.
        dual: the bound of "dual_clip" on ratios where the advantage is negative, > 1 + high.
    """

    low: float = 0.2
    high: float = 0.2
    dual: float = 3.0


@dataclass(frozen=True, slots=True)
class Surrogated:
    """What a surrogate gives.

    Attributes:
        per_token: ``[B, T]``, to be minimised.
        clipped: bool ``[B, T]`` by the log's name: where the trust region had an effect.
    """

    per_token: Tensor
    clipped: dict[str, Tensor]


Surrogate = Callable[[PolicyTerms, Clip], Surrogated]


def clipped_surrogate(ratio: Tensor, advantages: Tensor, clip_low: float, clip_high: float) -> Tensor:
    """-min(r A, clip(r, 1 - low, 1 + high) A), per token.

    Source: arXiv 1707.06347, eq. 7; separate bounds: arXiv 2503.14476, section 3.1.
    """
    return -torch.min(ratio * advantages, ratio.clamp(1 - clip_low, 1 + clip_high) * advantages)


def clipped(terms: PolicyTerms, clip: Clip) -> Surrogated:
    """PPO's clipped surrogate on ratios per token: r_t = pi(a_t) / pi_old(a_t). Source: arXiv 1707.06347, eq. 7."""
    return _clip(torch.exp(terms.log_ratio), terms, clip)


def dual_clipped(terms: PolicyTerms, clip: Clip) -> Surrogated:
    """The clipped surrogate, bounded below where A < 0: max(min(r A, clip(r) A), c A), to be maximised.

    A token that the policy made much likelier, and that turned out bad, no longer weighs without bound.
    Source: arXiv 1912.09729, dual-clip PPO.
    """
    ratio, advantages = torch.exp(terms.log_ratio), terms.advantages
    single = _clip(ratio, terms, clip)
    negative = advantages < 0
    per_token = torch.where(negative, torch.min(single.per_token, -clip.dual * advantages), single.per_token)
    return Surrogated(per_token, {**single.clipped, "clipped_dual": negative & (ratio > clip.dual)})


def cispo(terms: PolicyTerms, clip: Clip) -> Surrogated:
    """-sg[clip(r_t, 1 - low, 1 + high)] A_t log pi(a_t): the weight is clipped, and no token loses its gradient.

    The paper itself sets no lower bound, which is ``low`` = 1 here. Source: arXiv 2506.13585, section 3.1.
    """
    ratio = torch.exp(terms.log_ratio).detach()
    weight = ratio.clamp(1 - clip.low, 1 + clip.high)
    return Surrogated(
        -weight * terms.advantages * terms.logprobs,
        {"clipped_low": ratio < 1 - clip.low, "clipped_high": ratio > 1 + clip.high},
    )


def gspo(terms: PolicyTerms, clip: Clip) -> Surrogated:
    """The clipped surrogate on one ratio per row: s = exp(mean_k (log pi - log pi_old)), k over its K masked tokens.

    Meant for advantages that are the same all over the row. Source: arXiv 2507.18071, section 4.1.
    """
    ratio = torch.exp(mean_over_row(terms.log_ratio, terms.layout.mask))
    return _clip(ratio.expand_as(terms.logprobs), terms, clip)


def gspo_token(terms: PolicyTerms, clip: Clip) -> Surrogated:
    """GSPO for advantages per token: s_t = sg[s] pi(a_t) / sg[pi(a_t)], which is s, with the gradient of token t.

    Where a row's advantages and weights are the same, so are value and gradient. Source: arXiv 2507.18071, section 4.3.
    """
    ratio = torch.exp(mean_over_row(terms.log_ratio, terms.layout.mask)).detach()
    return _clip(ratio * torch.exp(terms.logprobs - terms.logprobs.detach()), terms, clip)


def per_turn(terms: PolicyTerms, clip: Clip) -> Surrogated:
    """The clipped surrogate on one length-normalised ratio per turn: exp(mean over the turn's masked tokens).

    Meant for advantages that are the same all over the turn. Source: StepPPO, arXiv 2604.18401.
    """
    return _clip(torch.exp(mean_over_turn(terms.log_ratio, terms.layout)), terms, clip)


SURROGATES: Registry[Surrogate] = Registry("surrogate")
SURROGATES.register("clipped", clipped)
SURROGATES.register("dual_clip", dual_clipped)
SURROGATES.register("cispo", cispo)
SURROGATES.register("gspo", gspo)
SURROGATES.register("gspo_token", gspo_token)
SURROGATES.register("turn", per_turn)


def _clip(ratio: Tensor, terms: PolicyTerms, clip: Clip) -> Surrogated:
    advantages = terms.advantages
    return Surrogated(
        clipped_surrogate(ratio, advantages, clip.low, clip.high),
        {
            "clipped_low": (ratio < 1 - clip.low) & (advantages < 0),
            "clipped_high": (ratio > 1 + clip.high) & (advantages > 0),
        },
    )
