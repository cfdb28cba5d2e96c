"""The trainer with each estimator that needs no critic: short runs of a real, tiny model."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch

from agent_envs.errors import ConfigError
from agent_trainer.estimators import ESTIMATORS
from agent_trainer.recipe import load_recipe
from tests.agent_trainer.small_training import small_config, small_trainer

CRITICS = {"gae", "gae_turn", "gae_bilevel"}
OPTIONS: dict[str, dict[str, Any]] = {
    "grpo_no_std": {},
    "dr_grpo": {"loss_aggregation": "constant"},
    "rloo": {"overlong_tokens": 16, "overlong_buffer_tokens": 12},
    "reinforce_pp": {"estimator_options": {"gamma": 0.99}, "beta": 0.05, "kl_in": "reward"},
    "reinforce_pp_baseline": {},
    "remax": {},
    "turn_grpo": {"estimator_options": {"gamma": 0.9}},
    "gigpo": {"anchor_similarity": 0.9},
}


@pytest.fixture(autouse=True)
def one_thread() -> None:
    torch.set_num_threads(1)


@pytest.mark.parametrize("name", list(OPTIONS))
def test_two_steps_with_each_estimator_move_the_weights(tmp_path: Path, name: str) -> None:
    trainer = small_trainer(tmp_path, estimator=name, max_steps=2, **OPTIONS[name])
    before = [parameter.detach().clone() for parameter in trainer.model.parameters()]
    trainer.train()
    assert len(trainer.losses) == 2
    assert all(math.isfinite(loss.item()) for loss in trainer.losses)
    for batch in trainer.batches:
        assert batch["advantages"].any()
        assert not batch["advantages"][~batch["tool_mask"].bool()].any()
    assert not all(torch.equal(old, new) for old, new in zip(before, trainer.model.parameters(), strict=True))


def test_every_estimator_is_run_here_or_refused() -> None:
    assert set(ESTIMATORS) == {"grpo", *OPTIONS, *CRITICS}


@pytest.mark.parametrize("name", sorted(CRITICS))
def test_an_estimator_that_needs_a_critic_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigError, match=f"'{name}' needs a critic, which this version does not train"):
        small_config(tmp_path, estimator=name)


@pytest.mark.parametrize("similarity", [0.0, 1.5])
def test_a_similarity_out_of_range_is_refused(tmp_path: Path, similarity: float) -> None:
    with pytest.raises(ConfigError, match="anchor_similarity must be in"):
        small_config(tmp_path, anchor_similarity=similarity)


def test_remax_compares_with_a_greedy_episode_of_each_groups_task_and_seed(tmp_path: Path) -> None:
    trainer = small_trainer(tmp_path, estimator="remax")
    trainer.train()
    lines = [json.loads(line) for line in (tmp_path / "episodes.jsonl").read_text().splitlines()]
    played = [line for line in lines if line["mode"] == "train"]
    greedy = {line["group"]: line for line in lines if line["mode"] == "greedy"}
    assert (len(played), len(greedy), len(lines)) == (8, 2, 10)
    for line in played:
        baseline = greedy[line["group"]]
        assert (line["task_id"], line["seed"]) == (baseline["task_id"], baseline["seed"])
    differences = [line["reward"] - greedy[line["group"]]["reward"] for line in played]
    batch = trainer.batches[0]
    found = {round(value, 4) for value in batch["advantages"][batch["tool_mask"]].tolist()}
    assert found == {round(value, 4) for value in differences}
    assert trainer.state.log_history[0]["greedy_reward"] == pytest.approx(
        sum(line["reward"] for line in greedy.values()) / 2
    )


def test_a_buffer_for_overlong_episodes_that_does_not_fit_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"overlong_buffer_tokens must be in \[1, overlong_tokens \(16\)\], got 256"):
        small_config(tmp_path, overlong_tokens=16)


def test_a_recipe_names_an_estimator_and_its_options() -> None:
    words = ["estimator=reinforce_pp", "estimator_options.gamma=0.5", "output_dir=nowhere"]
    assert load_recipe("hotpotqa_demo", words).config().estimator_options == {"gamma": 0.5}
    with pytest.raises(ConfigError, match="has no option 'lam'"):
        load_recipe("hotpotqa_demo", ["estimator=reinforce_pp", "estimator_options.lam=0.5"]).config()
