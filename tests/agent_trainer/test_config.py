from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agent_envs.errors import ConfigError, UnknownNameError
from agent_trainer.config import AgentConfig
from agent_trainer.losses import Clip


def config(folder: Path, **options: Any) -> AgentConfig:
    return AgentConfig(output_dir=str(folder), report_to="none", use_cpu=True, **options)


def test_prompts_are_counted_into_episodes_and_micro_batches(tmp_path: Path) -> None:
    args = config(tmp_path, prompts_per_step=6, group_size=4, per_device_train_batch_size=8, updates_per_rollout=2)
    assert args.gradient_accumulation_steps == 3
    assert args.steps_per_generation == 6
    assert args.generation_batch_size == 48
    assert args.num_generations == 4


def test_the_defaults_run_on_a_cpu(tmp_path: Path) -> None:
    args = config(tmp_path)
    assert args.bf16 is False
    assert args.gradient_checkpointing is False
    assert args.group_size == 8
    assert args.num_generations_eval == 1


def test_budgets_are_options_of_the_environment_and_evaluation_may_differ(tmp_path: Path) -> None:
    args = config(tmp_path, max_turns=3, env_kwargs={"top_k": 2}, eval_env_kwargs={"split": "mini/test", "top_k": 5})
    assert args.environment_options == {"top_k": 2, "max_turns": 3}
    assert args.eval_environment_options == {"top_k": 5, "max_turns": 3, "split": "mini/test"}


def test_the_loss_reads_its_settings_from_here(tmp_path: Path) -> None:
    args = config(tmp_path, epsilon=0.1, epsilon_high=0.3, beta=0.01, surrogate="gspo", loss_aggregation="constant")
    settings = args.loss_settings
    assert (settings.surrogate, settings.clip, settings.aggregation) == ("gspo", Clip(0.1, 0.3), "constant")
    assert (settings.kl_coef, settings.kl_estimator) == (0.01, "k3")
    assert config(tmp_path, epsilon=0.1).loss_settings.clip.high == 0.1


def test_a_kl_in_the_reward_is_not_in_the_loss_too(tmp_path: Path) -> None:
    assert config(tmp_path, beta=0.01, kl_in="reward").loss_settings.kl_coef == 0.0
    assert config(tmp_path, beta=0.01, kl_in="reward", kl_estimator="k1").beta == 0.01


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"loss_type": "grpo"}, "surrogate, loss_aggregation"),
        ({"top_p": 0.9}, "whole distribution"),
        ({"max_completion_length": 99}, "max_turn_tokens"),
        ({"use_vllm": True}, "use instead: sampler"),
        ({"group_size": 4, "num_generations": 6}, "give one"),
        ({"group_size": 1}, "group_size must be >= 2"),
        ({"prompts_per_step": 3, "group_size": 4}, "no multiple of per_device_train_batch_size"),
        ({"prompts_per_step": 8, "gradient_accumulation_steps": 3}, "makes gradient_accumulation_steps 8"),
        ({"updates_per_rollout": 2, "steps_per_generation": 2}, "contradicts"),
        ({"steps_per_generation": 3, "gradient_accumulation_steps": 2}, "must be a multiple"),
        ({"temperature": 0.0}, "temperature must be > 0"),
        ({"beta": -1.0}, "beta must be >= 0"),
        ({"env_kwargs": {"max_turns": 3}, "max_turns": 4}, "give it once"),
        ({"eval_strategy": "steps"}, "needs eval_tasks"),
        ({"generation_batch_size": 12}, "must be divisible"),
        ({"vllm_importance_sampling_correction": False}, "use instead: importance_correction"),
        ({"ds3_gather_for_generation": False}, "always gathered"),
        ({"num_generations_eval": 4}, "evaluated once"),
        ({"beta": 0.1, "kl_in": "both"}, "in one of them alone"),
        ({"beta": 0.1, "kl_in": "reward", "kl_estimator": "k3"}, "a KL in the reward is k1"),
        ({"kl_in": "reward"}, "does nothing without beta"),
        ({"kl_target": 0.1}, "beta must be > 0 where kl_target steers it"),
        ({"beta": 0.1, "kl_target": 0.0}, "kl_target must be > 0"),
        ({"surrogate": "dual_clip", "dual_clip_ratio": 1.2}, "must be > 1 [+] epsilon_high"),
        ({"min_importance_weight": 2.0}, "must be > min_importance_weight"),
        ({"delta": 2.0}, "use instead: surrogate: dual_clip"),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else "",
)
def test_what_contradicts_is_an_error_that_says_what_is_allowed(
    tmp_path: Path, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        config(tmp_path, **options)


@pytest.mark.parametrize(
    "field",
    [
        "estimator",
        "surrogate",
        "loss_aggregation",
        "kl_estimator",
        "importance_correction",
        "importance_limit",
        "sampler",
    ],
)
def test_an_unknown_part_is_an_error_that_lists_the_known_ones(tmp_path: Path, field: str) -> None:
    with pytest.raises(UnknownNameError, match="known:"):
        config(tmp_path, **{field: "nope"})
