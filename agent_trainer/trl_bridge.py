"""Everything of TRL's that has no promise of staying as it is, in one place. Tested with trl 1.16.

``tests/agent_trainer/test_trl_bridge.py`` holds the contract: the signatures and names that this module and the two
overrides of ``trainer.py`` rely on. When TRL is raised to another version, that test says what has moved.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import torch
from accelerate.utils import is_peft_model
from torch import Tensor, nn
from transformers import PreTrainedModel, TrainerCallback, TrainerControl, TrainerState, TrainingArguments
from trl import GRPOConfig, GRPOTrainer
from trl.models import prepare_deepspeed
from trl.models.utils import disable_gradient_checkpointing, unwrap_model_for_generation
from trl.trainer.utils import RepeatSampler, add_fused_lm_head, disable_dropout_in_model, use_adapter

from agent_envs.errors import ConfigError
from agent_trainer.stage import stable_seed

# What TRL's buffering, shuffling and splitting pass on untouched, and its own loss would read.
OUTPUT_KEYS = (
    "prompt_ids",
    "prompt_mask",
    "completion_ids",
    "completion_mask",
    "tool_mask",
    "advantages",
    "num_items_in_batch",
)


class EpochSampler(RepeatSampler):
    """TRL's order of prompts, but a function of the seed and the epoch.

    TRL's own draws the order of each epoch from one generator, which begins anew when a run is resumed, so that prompts
    are repeated and others skipped.
    """

    def set_epoch(self, epoch: int) -> None:
        """Called by accelerate before each epoch."""
        if self.shuffle:
            self.generator.manual_seed(stable_seed("prompts", self.seed, epoch))


def train_sampler(trainer: GRPOTrainer, dataset: Any) -> EpochSampler:
    """What ``GRPOTrainer._get_train_sampler`` gives, with an order that survives a resumed run."""
    return EpochSampler(
        data_source=dataset,
        mini_repeat_count=trainer.num_generations,
        batch_size=trainer.args.generation_batch_size // trainer.num_generations,
        repeat_count=trainer.num_iterations * trainer.args.steps_per_generation,
        shuffle=trainer.shuffle_dataset,
        seed=trainer.args.seed,
    )


class ResumedCounters(TrainerCallback):  # type: ignore[misc]
    """Puts TRL's own counters where transformers' trainer begins, in the middle of a generation or an epoch too.

    TRL counts micro-batches from the making of the trainer. After a resumed step that began in the middle of a
    generation, or an interrupted one, it would play the same prompts again and mistake where an update ends.
    """

    def __init__(self, trainer: GRPOTrainer) -> None:
        """Whose counters."""
        self._trainer = trainer

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Counts the micro-batches of the steps that are done, and drops what an interrupted run had buffered."""
        self._trainer._step = state.global_step * args.gradient_accumulation_steps
        self._trainer._buffered_inputs = None

    def on_epoch_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Tells the order of prompts its epoch; through a resumed loader of several processes accelerate does not."""
        order: Any = kwargs["train_dataloader"]
        while not isinstance(order, EpochSampler):
            order = order.batch_sampler if hasattr(order, "batch_sampler") else order.sampler
        order.set_epoch(int(state.epoch or 0))


def unused_reward(**_: Any) -> list[float]:
    """Stands for the reward function that TRL's constructor asks for; rewards come from the environment.

    Raises:
        RuntimeError: always; nothing should call it.
    """
    raise RuntimeError("the environment gives the rewards: this function only satisfies TRL's constructor")


def refuse_what_cannot_generate(trainer: GRPOTrainer) -> None:
    """Refuses weights that no process holds as a whole while it plays, rather than waiting for ever.

    Raises:
        ConfigError: the model is sharded by FSDP, whose forward pass needs all processes in step, and rollouts are not.
    """
    if trainer.is_fsdp_enabled:
        raise ConfigError(
            "FSDP gathers weights in each forward pass, which all processes must run together, and rollouts do not: "
            "use plain data parallelism, with an adapter (lora) perhaps, or DeepSpeed, which gathers once per rollout"
        )


def disable_attention_dropout(model: nn.Module) -> None:
    """Switches off the dropout that attention applies by a number of its own, where TRL only knows modules."""
    for module in model.modules():
        if isinstance(getattr(module, "attention_dropout", None), float):
            module.attention_dropout = 0.0  # type: ignore[assignment]


def copy_reference(model: str | PreTrainedModel | nn.Module, config: GRPOConfig, has_adapter: bool) -> nn.Module | None:
    """A copy of the policy as it stands, where TRL would try to load the reference from a folder and must not.

    TRL's own way needs a model that was saved somewhere, and gives the saved weights even if they have changed since. A
    model given by name is loaded by TRL (that is what the name means); with PEFT the adapter is switched off instead.
    To be called before TRL patches the model's forward, which a copy would share.
    """
    if config.beta == 0 or isinstance(model, str) or has_adapter or is_peft_model(model):
        return None
    return copy.deepcopy(model)


@contextmanager
def no_reference_from_disk(config: GRPOConfig, reference: nn.Module | None) -> Iterator[None]:
    """Around TRL's constructor: keeps it from loading a reference where there is one already."""
    beta = config.beta
    config.beta = 0.0 if reference is not None else beta
    try:
        yield
    finally:
        config.beta = beta


def adopt_reference(trainer: GRPOTrainer, reference: nn.Module | None) -> None:
    """Makes a copied reference what TRL would have made of its own: frozen, patched, on the right device."""
    trainer.beta = trainer.args.beta
    if reference is None:
        return
    reference.eval().requires_grad_(False)
    if trainer.args.disable_dropout:
        disable_dropout_in_model(reference)
    add_fused_lm_head(
        reference,
        temperature=trainer.temperature,
        cast_lm_head_to_fp32=trainer.args.cast_lm_head_to_fp32,
        outputs=("log_probs", "entropy"),
    )
    if trainer.is_deepspeed_enabled:
        trainer.ref_model = prepare_deepspeed(reference, trainer.accelerator)
    else:
        trainer.ref_model = trainer.accelerator.prepare_model(reference, evaluation_mode=True)


@contextmanager
def reference_model(trainer: GRPOTrainer) -> Iterator[nn.Module]:
    """The reference: a model of its own, or the policy with its adapter switched off (or set to its first state)."""
    if trainer.ref_model is not None:
        yield trainer.ref_model
        return
    policy = trainer.accelerator.unwrap_model(trainer.model)
    with use_adapter(policy, adapter_name="ref" if "ref" in policy.peft_config else None):
        yield trainer.model


@contextmanager
def generating(trainer: GRPOTrainer) -> Iterator[nn.Module]:
    """The policy unwrapped, its weights gathered where they are sharded, in the precision that the learner uses."""
    with (
        unwrap_model_for_generation(
            trainer.model_wrapped,
            trainer.accelerator,
            gather_deepspeed3_params=trainer.args.ds3_gather_for_generation,
            gradient_checkpointing_kwargs=trainer.args.gradient_checkpointing_kwargs,
        ) as model,
        torch.no_grad(),
        trainer.accelerator.autocast() if trainer.accelerator.device.type != "cpu" else nullcontext(),
    ):
        yield model


@contextmanager
def scoring(trainer: GRPOTrainer) -> Iterator[nn.Module]:
    """The policy for a pass without gradient."""
    with torch.no_grad(), disable_gradient_checkpointing(trainer.model, trainer.args.gradient_checkpointing_kwargs):
        yield trainer.model


def is_training(trainer: GRPOTrainer) -> bool:
    """TRL's own way to tell an update from an evaluation."""
    return bool(trainer.model.training)


def log_values(trainer: GRPOTrainer, values: dict[str, list[float]]) -> None:
    """Adds numbers to those that TRL averages and hands to the loggers at the next log."""
    metrics = trainer._metrics["train" if is_training(trainer) else "eval"]
    for name, numbers in values.items():
        metrics[name].extend(numbers)


def log_completions(
    trainer: GRPOTrainer, prompts: list[str], completions: list[str], rewards: list[float], advantages: list[float]
) -> None:
    """Adds rows to TRL's table of completions."""
    trainer._logs["prompt"].extend(prompts)
    trainer._logs["completion"].extend(completions)
    trainer._logs["rewards"]["reward"].extend(rewards)
    trainer._logs["advantages"].extend(advantages)


def micro_step(trainer: GRPOTrainer) -> int:
    """Which micro-batch of the current accumulation window this is, from 0."""
    return int(trainer._step % trainer.args.gradient_accumulation_steps)


def window_batches(trainer: GRPOTrainer) -> list[dict[str, Tensor]]:
    """All micro-batches of the current accumulation window, from TRL's buffer."""
    accumulated, buffered = trainer.args.gradient_accumulation_steps, trainer._buffered_inputs
    position = trainer._step % trainer.args.steps_per_generation
    first = position - position % accumulated
    batches: list[dict[str, Tensor]] = buffered[first : first + accumulated]
    return batches


def needs_old_logprobs(config: GRPOConfig) -> bool:
    """True where the policy may have been updated between generation and loss."""
    return config.num_iterations > 1 or config.steps_per_generation > config.gradient_accumulation_steps


def save_now(trainer: GRPOTrainer) -> None:
    """Writes a checkpoint of the last finished step."""
    trainer._save_checkpoint(trainer.model, trial=None)
