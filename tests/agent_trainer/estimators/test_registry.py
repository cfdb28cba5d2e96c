from __future__ import annotations

from typing import Any

import pytest

from agent_envs.errors import ConfigError, UnknownNameError
from agent_trainer.estimators import ESTIMATORS, make_estimator
from agent_trainer.estimators.gae import TokenGae


def test_options_replace_the_defaults_of_a_copy() -> None:
    assert make_estimator("gae", {"lam": 0.5, "gamma": 1}) == TokenGae(lam=0.5)
    assert ESTIMATORS.get("gae") == TokenGae()
    assert make_estimator("rloo") == ESTIMATORS.get("rloo")


def test_dr_grpo_is_grpo_without_the_standard_deviation() -> None:
    assert (
        ESTIMATORS.get("dr_grpo") == ESTIMATORS.get("grpo_no_std") == make_estimator("grpo", {"divide_by_std": False})
    )


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("gae", {"lamda": 0.9}, "'gae' has no option 'lamda'; it has: gamma, lam, whiten, advantage_mask"),
        ("rloo", {"gamma": 0.9}, "it has: none"),
        ("gae", {"lam": "high"}, "takes a number for lam, not 'high'"),
        ("gae", {"lam": True}, "takes a number for lam, not True"),
        ("gae", {"whiten": 1}, "takes true or false for whiten, not 1"),
        ("gae", {"lam": 1.5}, "'gae': lam must lie in"),
        ("gae_turn", {"gamma": -1}, "gamma must lie in"),
        ("gae_bilevel", {"turn_lam": 2.0}, "turn_lam must lie in"),
        ("turn_grpo", {"gamma": 2.0}, "gamma must lie in"),
        ("reinforce_pp", {"gamma": 2.0}, "gamma must lie in"),
        ("gigpo", {"turn_weight": -1.0}, "turn_weight must be >= 0"),
        ("gigpo", {"gamma": float("nan")}, "gamma must lie in"),
    ],
    ids=str,
)
def test_options_that_do_not_fit_are_errors(name: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        make_estimator(name, options)


def test_an_unknown_estimator_is_an_error_that_lists_the_known_ones() -> None:
    with pytest.raises(UnknownNameError, match="grpo, grpo_no_std"):
        make_estimator("gprompo")
