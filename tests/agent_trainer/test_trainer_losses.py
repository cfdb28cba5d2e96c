"""The trainer with each loss: short runs in which the policy has moved on from the one that played."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch

from agent_envs.context_rules import ContextRule
from agent_envs.envs import TokenEnv
from agent_trainer.errors import NonFiniteError
from agent_trainer.losses import AGGREGATIONS, SURROGATES
from tests.agent_envs.small_task import small_core
from tests.agent_trainer.small_training import WatchedTrainer, WritingTask, small_config, small_trainer, tiny_model

PAIRS = {
    "clipped": "episode",
    "dual_clip": "turn",
    "cispo": "token",
    "gspo": "sequence",
    "gspo_token": "constant",
    "turn": "turn",
}


@pytest.fixture(autouse=True)
def one_thread() -> None:
    torch.set_num_threads(1)


def logged(trainer: WatchedTrainer, name: str) -> list[float]:
    return [line[name] for line in trainer.state.log_history if name in line]


def test_every_surrogate_and_aggregation_is_run_here() -> None:
    assert set(PAIRS) == set(SURROGATES)
    assert set(PAIRS.values()) == set(AGGREGATIONS)


@pytest.mark.parametrize(("surrogate", "aggregation"), PAIRS.items())
def test_two_steps_on_one_generation_move_the_weights(tmp_path: Path, surrogate: str, aggregation: str) -> None:
    model = tiny_model()
    before = [parameter.detach().clone() for parameter in model.parameters()]
    trainer = small_trainer(
        tmp_path,
        model=model,
        surrogate=surrogate,
        loss_aggregation=aggregation,
        importance_correction="sequence",
        importance_limit="mask",
        num_iterations=2,
        max_steps=2,
    )
    trainer.train()
    assert all(math.isfinite(loss.item()) for loss in trainer.losses)
    assert trainer.losses[0].item() != trainer.losses[1].item()
    assert logged(trainer, "importance_dropped") == [0.0, 0.0]  # learner and sampler agree
    assert any(not torch.equal(old, new) for old, new in zip(before, model.parameters(), strict=True))


def windowed_trainer(folder: Path, **options: Any) -> WatchedTrainer:
    """Episodes of several rows: only the last turn stays in the context."""

    def env() -> TokenEnv:
        rule = ContextRule("window", keep_turns=1)
        return TokenEnv(
            small_core(task=WritingTask(), context_rule=rule, max_turns=4, max_turn_tokens=8, max_context=900)
        )

    return WatchedTrainer(model=tiny_model(), args=small_config(folder, optim="sgd", **options), env=env)


def test_episodes_of_several_rows_weigh_the_same_however_the_window_is_split(tmp_path: Path) -> None:
    whole = windowed_trainer(tmp_path / "whole", loss_aggregation="episode", per_device_train_batch_size=8)
    parts = windowed_trainer(tmp_path / "parts", loss_aggregation="episode", per_device_train_batch_size=2)
    whole.train()
    parts.train()
    batch = whole.inputs[0]
    of_row = batch["tool_mask"].sum(dim=1)
    assert (of_row < batch["episode_tokens"]).any()  # some episode lies in more than one row
    played = [json.loads(line) for line in (tmp_path / "whole" / "episodes.jsonl").read_text().splitlines()]
    assert whole._denominators is not None
    assert whole._denominators.episodes.item() == pytest.approx(len(played))
    assert whole._denominators.turns.item() == sum(len(line["turns"]) for line in played)
    assert len(parts.losses) == 4
    assert sum(parts.losses).item() == pytest.approx(whole.losses[0].item(), abs=1e-6)
    for one, other in zip(whole.model.parameters(), parts.model.parameters(), strict=True):
        assert torch.allclose(one, other, atol=1e-6)


def test_a_kl_in_the_reward_enters_advantages_and_not_the_loss(tmp_path: Path) -> None:
    trainer = small_trainer(
        tmp_path, beta=5.0, kl_in="reward", estimator="grpo_no_std", updates_per_rollout=2, max_steps=3, optim="sgd"
    )
    trainer.train()
    assert "ref_per_token_logps" not in trainer.batches[0]
    assert "old_per_token_logps" in trainer.batches[0]
    per_generation = logged(trainer, "kl")
    assert per_generation[0] == pytest.approx(0.0, abs=1e-6)  # the reference is the policy that the run began with
    assert per_generation[-1] != 0.0
    batch = trainer.batches[0]
    gap = (batch["old_per_token_logps"] - batch["sampler_logprobs"])[batch["tool_mask"]].abs()
    assert gap.max() < 1e-4


def test_a_reference_that_gives_nan_stops_a_run_with_a_kl_in_the_reward(tmp_path: Path) -> None:
    trainer = small_trainer(tmp_path, beta=0.1, kl_in="reward")
    with torch.no_grad():
        trainer.ref_model.lm_head.weight.fill_(math.nan)
    with pytest.raises(NonFiniteError, match="KL to the reference"):
        trainer.train()


@pytest.mark.parametrize("kl_in", ["loss", "reward"])
def test_a_steered_coefficient_is_kept_in_the_checkpoint(tmp_path: Path, kl_in: str) -> None:
    options = {"beta": 0.1, "kl_target": 1e3, "kl_in": kl_in, "save_strategy": "steps", "save_steps": 2}
    trainer = small_trainer(tmp_path, max_steps=2, **options)
    trainer.train()
    assert logged(trainer, "kl_coef") == pytest.approx([0.1, 0.098])  # far below the target: 2 % less each time
    resumed = small_trainer(tmp_path, max_steps=3, **options)
    resumed.train(resume_from_checkpoint=True)
    assert logged(resumed, "kl_coef")[-1] == pytest.approx(0.1 * 0.98**2)
