"""``agentr1 check``: a table of rules, an exit code, and errors that help."""

from __future__ import annotations

from collections.abc import Iterator

import gymnasium as gym
import pytest
from typer.testing import CliRunner

from agent_envs.checker import RULES
from agent_envs.errors import ConfigError
from agent_trainer.cli import app

RUNNER = CliRunner(env={"COLUMNS": "200", "TERM": "dumb"})
ID = "AgentR1/HotpotQA-v0"


@pytest.fixture
def wrong_solution() -> Iterator[str]:
    env_id = "Test/WrongSolution-v0"
    gym.register(env_id, entry_point="tests.agent_envs.checker.broken:make_wrong_solution")
    yield env_id
    del gym.registry[env_id]


def test_rules_are_listed_with_their_sentences() -> None:
    output = RUNNER.invoke(app, ["check", "--list"], catch_exceptions=False).output
    for name in RULES:
        (line,) = [line for line in output.splitlines() if line.split()[0] == name]
        assert RULES.get(name).sentence[:40] in line


def test_an_environment_that_passes_gives_exit_code_0() -> None:
    arguments = ["check", ID, "-o", "split=mini/test", "-o", "max_turns=4", "--rule", "oracle", "--rule", "levels"]
    result = RUNNER.invoke(app, arguments, catch_exceptions=False)
    assert result.exit_code == 0
    assert "2 passed, 0 failed, 0 skipped" in result.output
    assert [line.split()[:2] for line in result.output.splitlines() if "✓" in line] == [
        ["✓", "oracle"],
        ["✓", "levels"],
    ]


def test_an_environment_that_fails_gives_exit_code_1_and_says_what_came(wrong_solution: str) -> None:
    arguments = ["check", wrong_solution, "--quick", "--rule", "oracle", "--rule", "flags", "--skip", "flags"]
    result = RUNNER.invoke(app, arguments, catch_exceptions=False)
    assert result.exit_code == 1
    assert "0 passed, 1 failed" in result.output
    assert "expected a return of 1.0" in result.output
    assert "flags" not in result.output


def test_a_mistake_says_what_to_do() -> None:
    for arguments, message in (
        (["check"], "give --list"),
        (["check", "AgentR1/Nothing-v0"], "there is no environment 'AgentR1/Nothing-v0'"),
        (["check", "no_such_package:Env-v0"], "No module named 'no_such_package'"),
        (["check", ID, "-o", "maxturns=3"], "has no option 'maxturns'"),
        (["check", ID, "--rule", "mask"], "unknown rule 'mask'"),
    ):
        with pytest.raises(ConfigError, match=message):
            RUNNER.invoke(app, arguments, catch_exceptions=False)
