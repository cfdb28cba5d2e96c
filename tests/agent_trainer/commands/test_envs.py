"""``agentr1 envs``: every id with a line, every option with its default."""

from __future__ import annotations

import dataclasses

import pytest
from typer.testing import CliRunner

from agent_envs.errors import UnknownNameError
from agent_envs.options import EpisodeOptions
from agent_envs.tasks.catalogue import TASKS
from agent_envs.tasks.hotpotqa import HotpotQaOptions
from agent_trainer.cli import app

RUNNER = CliRunner(env={"COLUMNS": "160", "TERM": "dumb"})


def test_every_id_is_listed_with_a_line_on_it() -> None:
    output = RUNNER.invoke(app, ["envs"], catch_exceptions=False).output
    for name in TASKS:
        assert TASKS.get(name).env_id in output
        assert TASKS.get(name).summary[:30] in output


def test_every_option_of_an_id_is_explained() -> None:
    output = RUNNER.invoke(app, ["envs", "AgentR1/HotpotQA-v0"], catch_exceptions=False).output
    for kind in (EpisodeOptions, HotpotQaOptions):
        for field in dataclasses.fields(kind):
            (line,) = [line for line in output.splitlines() if line.split()[:1] == [field.name]]
            assert len(line.split()) > 3, f"{field.name} is not explained"


def test_an_unknown_id_lists_the_known_ones() -> None:
    with pytest.raises(UnknownNameError, match=r"known: .*AgentR1/HotpotQA-v0.*Did you mean"):
        RUNNER.invoke(app, ["envs", "AgentR1/HotpotQA-v1"], catch_exceptions=False)


@pytest.mark.parametrize("name", list(TASKS))
def test_the_defaults_shown_are_those_that_the_environment_is_made_with(name: str) -> None:
    entry = TASKS.get(name)
    output = RUNNER.invoke(app, ["envs", entry.env_id], catch_exceptions=False).output
    for field in dataclasses.fields(EpisodeOptions):
        (line,) = [line for line in output.splitlines() if line.split()[:1] == [field.name]]
        assert line.split()[1] == repr(entry.defaults.get(field.name, field.default))
