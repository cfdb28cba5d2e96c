"""Every id of the package keeps to every rule."""

from __future__ import annotations

import pytest

from agent_envs.checker import check_agent_env
from agent_envs.errors import MissingExtraError
from agent_envs.tasks.catalogue import TASKS

IDS = [TASKS.get(name).env_id for name in TASKS]


@pytest.mark.parametrize("env_id", IDS)
def test_an_id_passes_the_quick_check(env_id: str) -> None:
    try:
        report = check_agent_env(env_id, quick=True)
    except MissingExtraError as error:
        pytest.skip(f"{env_id} needs a package that is not installed: {error}")
    assert report.ok
    assert not report.skipped


@pytest.mark.slow
@pytest.mark.parametrize("env_id", IDS)
def test_an_id_passes_the_whole_check(env_id: str) -> None:
    try:
        report = check_agent_env(env_id)
    except MissingExtraError as error:
        pytest.skip(f"{env_id} needs a package that is not installed: {error}")
    assert {result.rule for result in report.results} >= {"processes"}
