"""The KL divergence to the reference: its estimators, as a penalty on rewards, and the coefficient before it.

A run has the term in the loss or in the reward, never both.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from agent_envs.registry import Registry
from agent_trainer.losses.layout import masked

# Estimated at the sampled token. Source: J. Schulman, "Approximating KL Divergence" (2020); k3 in the loss:
# arXiv 2402.03300, eq. 4.

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


@dataclass(frozen=True, slots=True)
class PenalisedRewards:
    """Rewards with the penalty in them.

    Attributes:
        rewards: ``[B, T]``, without gradient.
        kl: ``[B, T]``, k1 at action tokens, zero elsewhere, without gradient.
    """

    rewards: Tensor
    kl: Tensor


def penalise_rewards(
    rewards: Tensor, logprobs: Tensor, ref_logprobs: Tensor, action_mask: Tensor, coef: float
) -> PenalisedRewards:
    """r_t - beta (log pi(a_t) - log pi_ref(a_t)) at action tokens; the environment's tokens enter nothing.

    Source: arXiv 1909.08593, section 2, as one number per sequence; per token: arXiv 2203.02155, section 3.5.

    Args:
        rewards: float ``[B, T]``.
        logprobs: float ``[B, T]``, under the policy that played.
        ref_logprobs: float ``[B, T]``.
        action_mask: bool ``[B, T]``, True where the policy sampled the token.
        coef: beta, >= 0.
    """
    kl = masked(kl_k1(logprobs, ref_logprobs), action_mask).detach()
    return PenalisedRewards(rewards - coef * kl, kl)


@dataclass(frozen=True, slots=True)
class KLCoefficient:
    """The coefficient before the KL term, fixed or steered towards a target; a value, not an object that changes.

    Attributes:
        value: the coefficient at hand, >= 0.
        target: mean KL per action token to aim at, in nats, > 0; None leaves the coefficient as it is.
        gain: the largest relative change of one update is 0.2 times this.
    """

    value: float
    target: float | None = None
    gain: float = 0.1

    def updated(self, mean_kl: float) -> KLCoefficient:
        """The coefficient for the next update: beta (1 + gain clip(KL / target - 1, -0.2, 0.2)).

        Source: arXiv 1909.08593, section 2.2; deviation: the KL is a mean per token, not a sum per sequence, so that
        the target does not depend on how long episodes are.
        """
        if self.target is None:
            return self
        error = min(0.2, max(-0.2, mean_kl / self.target - 1.0))
        return replace(self, value=self.value * (1.0 + self.gain * error))
