"""Losses as pure functions of log-probabilities, advantages and masks, one file per part.

A variant is a function and a line in its file's registry: ``SURROGATES``, ``AGGREGATIONS``, ``KL_ESTIMATORS``,
``IMPORTANCE_CORRECTIONS``, ``IMPORTANCE_LIMITS``. Tensors are ``[B, T]`` over completion tokens unless they say
otherwise.
"""

from __future__ import annotations

from agent_trainer.losses.aggregations import AGGREGATIONS, Aggregation
from agent_trainer.losses.importance import (
    IMPORTANCE_CORRECTIONS,
    IMPORTANCE_LIMITS,
    ImportanceCorrection,
    Limit,
    importance_weights,
)
from agent_trainer.losses.kl import KL_ESTIMATORS, KLCoefficient, KLEstimator, PenalisedRewards, penalise_rewards
from agent_trainer.losses.layout import Denominators, TokenLayout, loss_mask
from agent_trainer.losses.policy import LossInputs, LossResult, LossSettings, policy_loss
from agent_trainer.losses.surrogates import SURROGATES, Clip, PolicyTerms, Surrogate, Surrogated, clipped_surrogate
from agent_trainer.losses.value import ValueInputs, ValueLossResult, value_loss

__all__ = [
    "AGGREGATIONS",
    "IMPORTANCE_CORRECTIONS",
    "IMPORTANCE_LIMITS",
    "KL_ESTIMATORS",
    "SURROGATES",
    "Aggregation",
    "Clip",
    "Denominators",
    "ImportanceCorrection",
    "KLCoefficient",
    "KLEstimator",
    "Limit",
    "LossInputs",
    "LossResult",
    "LossSettings",
    "PenalisedRewards",
    "PolicyTerms",
    "Surrogate",
    "Surrogated",
    "TokenLayout",
    "ValueInputs",
    "ValueLossResult",
    "clipped_surrogate",
    "importance_weights",
    "loss_mask",
    "penalise_rewards",
    "policy_loss",
    "value_loss",
]
