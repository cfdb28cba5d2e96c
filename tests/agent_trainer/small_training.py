"""A trainer small enough to run in a second: a random model of two layers on a task that rewards any text a little."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import LlamaConfig, LlamaForCausalLM

from agent_envs.envs import TokenEnv
from agent_envs.tasks.base import Outcome
from agent_envs.tokenizers import ByteTokenizer
from agent_trainer.config import AgentConfig
from agent_trainer.trainer import AgentTrainer
from tests.agent_envs.small_task import SmallTask, small_core


class WritingTask(SmallTask):
    """Each turn earns the share of its text that is lower case: even a random policy's episodes differ."""

    def __init__(self, items: tuple[str, ...] = ("alpha", "beta", "gamma", "delta")) -> None:
        super().__init__(items=items)

    def reward(self, outcome: Outcome[str]) -> float:
        text = outcome.turns[-1].text
        return sum(character.islower() for character in text) / max(1, len(text))


class SameTask(WritingTask):
    """Everybody earns the same: no group has spread."""

    def reward(self, outcome: Outcome[str]) -> float:
        return 0.0


def writing_env(task: SmallTask | None = None) -> TokenEnv:
    return TokenEnv(small_core(task=task or WritingTask(), max_turns=3, max_turn_tokens=8, max_context=900))


def tiny_model(seed: int = 0, spare_rows: int = 5, **options: Any) -> LlamaForCausalLM:
    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=ByteTokenizer.vocab_size + spare_rows,  # more rows than the tokenizer has ids, as real models have
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        max_position_embeddings=1024,
        pad_token_id=ByteTokenizer.pad_id,
        eos_token_id=258,
        bos_token_id=None,
        initializer_range=0.2,
        **options,
    )
    model = LlamaForCausalLM(config)
    # The end of a turn is likely enough that episodes have several turns of different lengths.
    bias = torch.zeros(config.vocab_size)
    bias[258] = 4.0
    weight = model.lm_head.weight
    model.lm_head = torch.nn.Linear(config.hidden_size, config.vocab_size)
    model.lm_head.weight, model.lm_head.bias = weight, torch.nn.Parameter(bias)
    return model


class WatchedTrainer(AgentTrainer):
    """Keeps what goes through the two replaced methods."""

    def __init__(self, *args: Any, **options: Any) -> None:
        self.batches: list[dict[str, Tensor]] = []
        self.inputs: list[dict[str, Tensor]] = []
        self.losses: list[Tensor] = []
        super().__init__(*args, **options)

    def _generate_and_score_completions(self, inputs: list[dict[str, Any]]) -> dict[str, Tensor]:
        self.batches.append(super()._generate_and_score_completions(inputs))
        return self.batches[-1]

    def _compute_loss(self, model: Any, inputs: dict[str, Tensor]) -> Tensor:
        self.inputs.append(inputs)
        self.losses.append(super()._compute_loss(model, inputs))
        return self.losses[-1]


def small_config(folder: Path, **options: Any) -> AgentConfig:
    defaults: dict[str, Any] = {
        "prompts_per_step": 2,
        "group_size": 4,
        "per_device_train_batch_size": 8,
        "max_steps": 1,
        "learning_rate": 1e-2,
        "save_strategy": "no",
        "report_to": "none",
        "disable_tqdm": True,
        "env_threads": 2,
        "lr_scheduler_type": "constant",
    }
    return AgentConfig(output_dir=str(folder), **{**defaults, **options})


def small_trainer(folder: Path, model: Any = None, task: SmallTask | None = None, **options: Any) -> WatchedTrainer:
    model = tiny_model() if model is None else model
    return WatchedTrainer(model=model, args=small_config(folder, **options), env=lambda: writing_env(task))
