"""A real chat model on real questions: SmolLM2-135M-Instruct with its own tokenizer and template."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM

from agent_trainer import AgentConfig, AgentTrainer
from agent_trainer.evaluate import EvaluationSettings, evaluate
from agent_trainer.records import read_jsonl
from tests.agent_envs.smollm2 import smollm2_folder

pytestmark = pytest.mark.slow
BUDGETS = {"max_turns": 2, "max_turn_tokens": 48, "max_observation_tokens": 200, "max_context": 1500}


def test_it_plays_real_questions(real_samples: Path, tmp_path: Path) -> None:
    folder = smollm2_folder()
    options = {"dataset": str(real_samples / "hotpotqa_dev_distractor.jsonl"), "tokenizer": str(folder), **BUDGETS}
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.bfloat16)
    settings = EvaluationSettings(records=tmp_path / "episodes.jsonl", progress=False)
    played = evaluate(model, "AgentR1/HotpotQA-v0", options, 4, settings)
    assert (played.questions, played.failed) == (4, 0)
    assert len(list(read_jsonl(tmp_path / "episodes.jsonl"))) == 4


def test_one_grpo_step_has_a_finite_loss_and_the_learner_agrees_with_the_sampler(
    real_samples: Path, tmp_path: Path
) -> None:
    args = AgentConfig(
        output_dir=str(tmp_path),
        env_kwargs={"dataset": str(real_samples / "hotpotqa_dev_distractor.jsonl"), "reward": "paper"},
        **BUDGETS,
        group_size=4,
        prompts_per_step=2,
        per_device_train_batch_size=2,
        max_steps=1,
        learning_rate=1e-5,
        report_to="none",
        save_strategy="no",
        model_init_kwargs={"dtype": "float32"},
    )
    trainer = AgentTrainer(model=str(smollm2_folder()), args=args)
    before = trainer.model.get_output_embeddings().weight.detach().clone()
    trainer.train()
    (logged,) = [entry for entry in trainer.state.log_history if "loss" in entry]
    assert math.isfinite(logged["loss"])
    assert math.isfinite(logged["grad_norm"])
    if logged["groups_without_spread"] < 1:
        assert logged["logprob_gap"] < 1e-4
        assert not torch.equal(before, trainer.model.get_output_embeddings().weight)
