from __future__ import annotations

import gymnasium as gym
import pytest
import torch

import agent_envs  # noqa: F401 - registers the ids
from agent_envs.types import StopReason
from agent_trainer.metrics import WindowSums, episode_values, malformed_share
from tests.agent_trainer.episodes import episode


def test_each_episode_gives_its_numbers_and_a_failed_one_only_counts() -> None:
    values = episode_values(
        [
            episode("Paaea", {4: 0.5}),
            episode("Pa", reason=StopReason.MAX_TURNS),
            episode("Pa", {1: 9.0}, reason=StopReason.TOOL_FAILURE),
            None,
        ]
    )
    assert values["failed_share"] == [0, 0, 1, 1]
    assert values["reward"] == [0.5, 0]
    assert values["turns"] == [2, 1]
    assert values["truncated_share"] == [0, 1]
    assert values["action_tokens"] == [3, 1]
    assert values["em"] == [1, 0]


def test_the_malformed_share_is_over_calls_not_episodes() -> None:
    assert malformed_share({"malformed_calls": [1, 0, 0], "tool_calls": [0, 1, 2]}) == 0.25
    assert malformed_share({"malformed_calls": [0], "tool_calls": [0]}) == 0
    assert malformed_share({}) == 0


def test_calls_are_counted_as_the_environment_counts_them() -> None:
    env = gym.make("AgentR1/HotpotQA-v0", level="turn").unwrapped
    env.reset(seed=0)
    call = '<tool_call>{"name": "%s", "arguments": {"query": "x"}}</tool_call>'
    for turn in (call % "search", call % "fly", "<tool_call>broken</tool_call>", "<answer>no</answer>"):
        env.step(turn)
    values = episode_values([env.episode])  # type: ignore[attr-defined]
    assert (values["tool_calls"], values["malformed_calls"]) == ([1], [2])
    assert values["tool_calls"][0] == env.episode.metrics["tool_calls"]  # type: ignore[attr-defined]
    assert malformed_share(values) == pytest.approx(2 / 3)


def test_means_weigh_micro_batches_by_their_tokens() -> None:
    sums = WindowSums()
    sums.add({"entropy": torch.tensor(3.0)}, torch.tensor(1))
    sums.add({"entropy": torch.tensor(3.0)}, torch.tensor(5))
    doubled = sums.means(lambda tensor: 2 * tensor)  # as if another process had the same
    assert doubled == {"entropy": pytest.approx(1.0), "tokens": 12}
    sums.add({"entropy": torch.tensor(0.0)}, torch.tensor(0))
    assert sums.means(lambda tensor: tensor) == {"tokens": 0}
