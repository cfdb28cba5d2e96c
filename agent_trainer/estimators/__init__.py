"""Estimators of advantages by name. Adding one is a file here and a line below."""

from __future__ import annotations

from agent_envs.registry import Registry
from agent_trainer.estimators.base import AdvantageInputs, Advantages, Estimator
from agent_trainer.estimators.grpo import GroupRelative

ESTIMATORS: Registry[Estimator] = Registry("estimator")
ESTIMATORS.register("grpo", GroupRelative(divide_by_std=True))
ESTIMATORS.register("grpo_no_std", GroupRelative(divide_by_std=False))

__all__ = ["ESTIMATORS", "AdvantageInputs", "Advantages", "Estimator"]
