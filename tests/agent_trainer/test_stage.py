from __future__ import annotations

from pathlib import Path

import gymnasium as gym
import pytest

from agent_envs.errors import ConfigError
from agent_trainer.stage import group_specs, open_stage, stable_seed
from tests.agent_trainer.small_training import writing_env


def test_members_of_a_group_share_task_and_environment_and_differ_in_the_policys_stream() -> None:
    specs = group_specs(["a", "a", "b", "b"], 2, 0, ("run", 0))
    assert [spec.group for spec in specs] == [0, 0, 1, 1]
    assert specs[0].env_seed == specs[1].env_seed != specs[2].env_seed
    assert len({spec.sampling_seed for spec in specs}) == 4


def test_processes_split_a_batch_without_splitting_its_groups() -> None:
    tasks = ["a", "a", "a", "b", "b", "b"]
    whole = group_specs(tasks, 3, 0, ("run", 7))
    assert group_specs(tasks[:2], 3, 0, ("run", 7)) + group_specs(tasks[2:], 3, 2, ("run", 7)) == whole


def test_a_group_with_two_tasks_is_refused() -> None:
    with pytest.raises(ValueError, match="group 0 mixes the tasks 'a' and 'b'"):
        group_specs(["a", "b"], 2, 0, ())


def test_seeds_are_the_same_in_every_process_and_neighbours_share_nothing() -> None:
    assert stable_seed("environment", 1, 2) == 217881223773867
    seeds = [stable_seed("policy", index) for index in range(2000)]
    assert len(set(seeds)) == 2000
    assert 0 <= min(seeds) <= max(seeds) < 2**48
    assert 0.48 < sum(seed & 1 for seed in seeds) / 2000 < 0.52


def test_a_stage_shows_tasks_and_refuses_what_it_does_not_know() -> None:
    assert open_stage(writing_env, {}).task_ids[0] == "small-0"
    assert len(open_stage("AgentR1/HotpotQA-v0", {}).task_ids) > 100
    with pytest.raises(ConfigError, match=r"known: .*AgentR1/HotpotQA-v0"):
        open_stage("AgentR1/Chess-v0", {})
    with pytest.raises(ConfigError, match="takes no options"):
        open_stage(writing_env, {"max_turns": 2})
    with pytest.raises(ConfigError, match="max_turns"):
        open_stage("AgentR1/HotpotQA-v0", {"max_turn": 2})


def test_an_environment_of_anybodys_package_is_named_with_its_module(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "somebodys_envs.py").write_text(
        "import gymnasium as gym\ngym.register('Somebody/Echo-v0', 'tests.agent_trainer.small_training:writing_env')\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    try:
        assert len(open_stage("somebodys_envs:Somebody/Echo-v0", {}).task_ids) == 4
    finally:
        gym.registry.pop("Somebody/Echo-v0", None)
    with pytest.raises(ConfigError, match="cannot import 'nobodys_envs', which 'nobodys_envs:X-v0' names"):
        open_stage("nobodys_envs:X-v0", {})
    with pytest.raises(ConfigError, match=r"unknown environment 'AgentR1/Hotpot-v0'; known: .*Did you mean"):
        open_stage("AgentR1/Hotpot-v0", {})
