"""Estimators of advantages by name. Adding one is a file here and a line below."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

from agent_envs.errors import ConfigError
from agent_envs.registry import Registry
from agent_trainer.estimators.base import AdvantageInputs, Advantages, Estimator
from agent_trainer.estimators.gae import BiLevelGae, TokenGae, TurnGae
from agent_trainer.estimators.gigpo import GroupInGroup
from agent_trainer.estimators.grpo import GroupRelative
from agent_trainer.estimators.overlong import OverlongPenalised
from agent_trainer.estimators.reinforce import ReinforcePlusPlus, ReinforcePlusPlusBaseline
from agent_trainer.estimators.remax import ReMax
from agent_trainer.estimators.rloo import LeaveOneOut
from agent_trainer.estimators.turn_grpo import TurnRelative

ESTIMATORS: Registry[Estimator] = Registry("estimator")
ESTIMATORS.register("grpo", GroupRelative())
ESTIMATORS.register("grpo_no_std", GroupRelative(divide_by_std=False))
ESTIMATORS.register("dr_grpo", GroupRelative(divide_by_std=False))  # the same; its loss aggregation is "constant"
ESTIMATORS.register("rloo", LeaveOneOut())
ESTIMATORS.register("reinforce_pp", ReinforcePlusPlus())
ESTIMATORS.register("reinforce_pp_baseline", ReinforcePlusPlusBaseline())
ESTIMATORS.register("remax", ReMax())
ESTIMATORS.register("turn_grpo", TurnRelative())
ESTIMATORS.register("gigpo", GroupInGroup())
ESTIMATORS.register("gae", TokenGae())
ESTIMATORS.register("gae_turn", TurnGae())
ESTIMATORS.register("gae_bilevel", BiLevelGae())


def make_estimator(name: str, options: Mapping[str, Any] | None = None) -> Estimator:
    """The estimator of that name, with other options than its defaults.

    Raises:
        ConfigError: no such estimator, no such option, or a value that does not fit; the message lists what does.
    """
    default: Any = ESTIMATORS.get(name)
    known = asdict(default)
    for option, value in (options or {}).items():
        if option not in known:
            raise ConfigError(f"the estimator {name!r} has no option {option!r}; it has: {', '.join(known) or 'none'}")
        is_flag = isinstance(known[option], bool)
        if isinstance(value, bool) != is_flag or not isinstance(value, (bool, int, float)):
            kind = "true or false" if is_flag else "a number"
            raise ConfigError(f"the estimator {name!r} takes {kind} for {option}, not {value!r}")
    try:
        made: Estimator = replace(default, **(options or {}))
    except ValueError as error:
        raise ConfigError(f"the estimator {name!r}: {error}") from error
    return made


__all__ = ["ESTIMATORS", "AdvantageInputs", "Advantages", "Estimator", "OverlongPenalised", "make_estimator"]
