"""Every rule passes a sound environment and catches one that breaks it."""

from __future__ import annotations

from collections.abc import Iterator

import gymnasium as gym
import pytest

from agent_envs.checker import RULES, ConformanceError, check_agent_env
from agent_envs.envs import TurnEnv
from agent_envs.errors import ConfigError, UnknownNameError
from tests.agent_envs.checker.broken import BROKEN, HintsInInfo, NoSolution, core_of, good_env, registered


@pytest.fixture(autouse=True)
def registry_as_it_was() -> Iterator[None]:
    before = dict(gym.registry)
    yield
    gym.registry.clear()
    gym.registry.update(before)


@pytest.mark.parametrize("level", ["token", "turn"])
def test_a_sound_environment_passes_every_rule(level: str) -> None:
    report = check_agent_env(good_env(level), seeds=range(4))
    assert {result.rule for result in report.results} == set(RULES)
    assert [result.rule for result in report.skipped] == ["spec", "pickle", "processes"]


def test_with_a_spec_other_processes_are_tried() -> None:
    report = check_agent_env(registered("Test/Good-v0", "make_good"))
    assert report.ok
    assert [result.rule for result in report.skipped] == ["pickle"]


@pytest.mark.parametrize("name", list(RULES))
def test_a_broken_environment_breaks_its_rule(name: str) -> None:
    report = check_agent_env(BROKEN[name](), rules=[name], seeds=range(4), raise_error=False)
    (result,) = report.failures
    assert result.rule == name
    for finding in result.findings:
        assert finding.expected != "no exception"
        assert finding.got
        assert finding.reproduce
    assert len({str(finding) for finding in result.findings}) == len(result.findings)


def test_a_hint_in_the_info_of_a_step_is_found_too() -> None:
    report = check_agent_env(HintsInInfo(core_of()), rules=["no-gold"], seeds=range(4), raise_error=False)
    (result,) = report.failures
    assert [finding.expected for finding in result.findings] == ["no gold answer in the info of a step"]


def test_functions_among_the_options_skip_the_rules_that_write_the_spec() -> None:
    def double(number: int) -> int:
        """Twice a number."""
        return 2 * number

    oracle = [{"name": "double", "arguments": {"number": 2}}]
    items = [{"question": "Twice 2?", "answer": 4, "oracle": oracle}]
    env = gym.make("AgentR1/ToolUse-v0", level="turn", tools=[double], items=items)
    report = check_agent_env(env, rules=["spec", "processes", "oracle"])
    assert [result.rule for result in report.skipped] == ["spec", "processes"]
    assert all("JSON cannot write" in result.reason for result in report.skipped)


def test_a_failure_raises_with_what_was_expected_what_came_and_how_to_see_it_again() -> None:
    with pytest.raises(
        ConformanceError, match=r"oracle: expected a return of 1.0.*got a return of 0.0.*reset\(seed=0"
    ) as e:
        check_agent_env(BROKEN["oracle"](), rules=["oracle", "flags"])
    assert [result.rule for result in e.value.report.failures] == ["oracle"]


def test_a_rule_that_trips_over_the_environment_reports_it_and_the_others_still_run() -> None:
    env = TurnEnv(core_of(NoSolution()))
    report = check_agent_env(env, rules=["oracle", "invalid-actions"], raise_error=False)
    assert [(result.rule, result.status) for result in report.results] == [
        ("oracle", "failed"),
        ("invalid-actions", "passed"),
    ]
    assert "ZeroDivisionError" in str(report)


def test_rules_can_be_chosen_and_left_out() -> None:
    report = check_agent_env(good_env(), rules=["flags", "oracle", "masks"], skip=["oracle"])
    assert [result.rule for result in report.results] == ["flags", "masks"]
    assert "processes" not in {result.rule for result in check_agent_env(good_env(), quick=True).results}


def test_a_mistake_of_the_caller_is_said_at_once() -> None:
    with pytest.raises(UnknownNameError, match=r"unknown rule 'mask'.*Did you mean 'masks'"):
        check_agent_env(good_env(), rules=["mask"])
    with pytest.raises(ConfigError, match="at least one, got none"):
        check_agent_env(good_env(), seeds=())
    with pytest.raises(ConfigError, match="options are for ids"):
        check_agent_env(good_env(), options={"max_turns": 3})
    with pytest.raises(ConfigError, match="show their `core` and `episode`, not CartPoleEnv"):
        check_agent_env("CartPole-v1")


def test_the_given_environment_is_never_stepped() -> None:
    env = good_env()
    env.reset(seed=3)
    env.step("a turn")
    before = env.episode
    check_agent_env(env, rules=["flags", "deepcopy", "budgets"])
    assert env.episode.tokens.tolist() == before.tokens.tolist()
    assert env.episode.turns == before.turns
