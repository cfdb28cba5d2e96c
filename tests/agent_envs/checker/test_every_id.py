"""Every id of the package keeps to every rule."""

from __future__ import annotations

from typing import Any

import pytest

from agent_envs.checker import RULES, Report, check_agent_env
from agent_envs.errors import MissingExtraError
from agent_envs.formats import FORMATS
from agent_envs.tasks.catalogue import TASKS

CASES = [(TASKS.get(name).env_id, dict[str, Any]()) for name in TASKS]
CASES += [("AgentR1/BFCL-v0", {"category": "multi_turn_base"})]  # another kind of episode than the default's
FORMAT_CASES = [("AgentR1/HotpotQA-v0", {"tool_format": name}) for name in FORMATS if name not in ("hermes", "retool")]
FORMAT_CASES += [("AgentR1/PythonMath-v0", {"tool_format": "retool"})]  # it calls a Python tool and nothing else

# What a task has nothing to try on: no tool that is run, no answer in words.
NOT_TO_BE_HAD = {"observation-budget", "hostile-documents", "no-gold", "blind-tools"}


@pytest.mark.parametrize(("env_id", "options"), CASES)
def test_an_id_passes_the_quick_check(env_id: str, options: dict[str, Any]) -> None:
    report = checked(env_id, options, quick=True)
    assert {result.rule for result in report.skipped} <= NOT_TO_BE_HAD


@pytest.mark.parametrize(("env_id", "options"), FORMAT_CASES)
def test_every_tool_format_passes_the_quick_check(env_id: str, options: dict[str, Any]) -> None:
    report = checked(env_id, options, quick=True)
    assert not report.skipped


@pytest.mark.slow
@pytest.mark.parametrize(("env_id", "options"), CASES)
def test_an_id_passes_the_whole_check(env_id: str, options: dict[str, Any]) -> None:
    report = checked(env_id, options, quick=False)
    assert {result.rule for result in report.results} == set(RULES)
    assert {result.rule for result in report.skipped} <= NOT_TO_BE_HAD


def checked(env_id: str, options: dict[str, Any], quick: bool) -> Report:
    try:
        return check_agent_env(env_id, options=options, quick=quick)
    except MissingExtraError as error:
        pytest.skip(f"{env_id} needs a package that is not installed: {error}")
