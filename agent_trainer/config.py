"""What a run is: TRL's ``GRPOConfig`` with an environment, batches counted in prompts, and the parts of the algorithm.

Everything that ``transformers.TrainingArguments`` takes (learning rate, schedule, saving, logging, DeepSpeed)
works as there. Options of ``GRPOConfig`` that this trainer replaces are refused rather than ignored.
"""

from __future__ import annotations

import os
from dataclasses import MISSING, dataclass, field, fields
from typing import Any

import torch
from trl import GRPOConfig

from agent_envs.errors import ConfigError
from agent_trainer.estimators import Estimator, OverlongPenalised, make_estimator
from agent_trainer.losses import (
    AGGREGATIONS,
    IMPORTANCE_CORRECTIONS,
    IMPORTANCE_LIMITS,
    KL_ESTIMATORS,
    SURROGATES,
    Clip,
    LossSettings,
)
from agent_trainer.sampler import SAMPLERS

# What an estimator may need that nothing here provides yet.
_NOT_PROVIDED = {
    "values": "a critic, which this version does not train",
}

_BUDGETS = ("max_turns", "max_turn_tokens", "max_observation_tokens", "max_context")

# Options of GRPOConfig that nothing here reads, and what to use instead.
_REPLACED = {
    "loss_type": "surrogate, loss_aggregation and estimator",
    "scale_rewards": "estimator: grpo divides by the standard deviation, grpo_no_std does not",
    "importance_sampling_level": "surrogate: gspo has one ratio per row, turn one per turn",
    "delta": "surrogate: dual_clip, with dual_clip_ratio",
    "off_policy_mask_threshold": "importance_correction",
    "mask_truncated_completions": "it would drop every episode that ends on the environment's tokens; shape the reward",
    "top_entropy_quantile": "nothing; the loss looks at every token of the policy",
    "use_adaptive_entropy": "entropy_coef, a fixed coefficient",
    "sync_ref_model": "nothing; the reference is the model that the run began with",
    "max_completion_length": "max_turn_tokens, max_turns and max_context",
    "max_tool_calling_iterations": "max_turns",
    "reward_weights": "the environment's reward (env_kwargs)",
    "multi_objective_aggregation": "the environment's reward (env_kwargs)",
    "chat_template_kwargs": "the environment's own options (env_kwargs)",
    "generation_kwargs": "temperature",
    "cache_implementation": "nothing; the sampler keeps its own cache",
    "use_vllm": "sampler",
    "use_transformers_continuous_batching": "sampler",
    "router_aux_loss_coef": "nothing; no auxiliary loss is added",
    "use_bias_correction_kl": "nothing; the KL term is never weighted by the ratio",
    "vllm_importance_sampling_correction": "importance_correction",
    "vllm_importance_sampling_mode": "importance_correction and importance_limit",
    "vllm_importance_sampling_clip_max": "max_importance_weight",
    "vllm_importance_sampling_clip_min": "min_importance_weight",
    "ds3_gather_for_generation": "nothing; weights are always gathered, since processes play at their own pace",
    # A policy gradient is only right for the distribution that was sampled from: the whole of it.
    "top_p": "temperature; tokens are sampled from the whole distribution, or the ratios would be biased",
    "top_k": "temperature; tokens are sampled from the whole distribution, or the ratios would be biased",
    "min_p": "temperature; tokens are sampled from the whole distribution, or the ratios would be biased",
    "repetition_penalty": "temperature; tokens are sampled from the model's own distribution",
}


@dataclass
class AgentConfig(GRPOConfig):
    """The options of ``AgentTrainer``, beside those of ``trl.GRPOConfig``.

    Attributes:
        env_id: the environment, an id of ``agentr1 envs``.
        env_kwargs: options of the environment (``agentr1 envs`` lists them); the tokenizer defaults to the model's.
        eval_env_kwargs: what differs while evaluating, such as ``{"split": "mini/validation"}``.
        max_turns: budget of the environment, in turns; None leaves the environment's default.
        max_turn_tokens: budget of one turn of the policy, in tokens; None likewise.
        max_observation_tokens: budget of what the environment writes after a turn, in tokens; None likewise.
        max_context: budget of a whole episode, prompt included, in tokens; None likewise.
        group_size: episodes per prompt that are compared with each other, >= 2 (TRL's num_generations).
        prompts_per_step: prompts of one optimizer step, over all processes; sets gradient_accumulation_steps.
            None leaves that to gradient_accumulation_steps and per_device_train_batch_size (in episodes).
        updates_per_rollout: optimizer steps that share one generation of episodes, >= 1 (mini-batches of PPO).
        estimator: of advantages: a name in ``agent_trainer.estimators.ESTIMATORS``.
        estimator_options: its options, such as ``{"gamma": 0.95}``; docs/algorithms.md lists them.
        anchor_similarity: for "gigpo": how alike two observations must be for the turns after them to have begun in the
            same state, in (0, 1]; 1 means equal.
        overlong_tokens: episodes with this many tokens of the policy's own, or more, have 1 taken off their reward, and
            somewhat shorter ones less; None takes nothing.
        overlong_buffer_tokens: over how many tokens before ``overlong_tokens`` the penalty grows from 0 to 1.
        surrogate: of the policy gradient: "clipped" (PPO), "dual_clip", "cispo", "gspo" or "gspo_token" (one ratio per
            row), "turn" (one per turn). Ratios are clipped to [1 - epsilon, 1 + epsilon_high], whatever they are of.
        dual_clip_ratio: of "dual_clip": the bound on ratios where the advantage is negative, > 1 + epsilon_high.
        loss_aggregation: what weighs the same: "token", "sequence" (a row), "turn", "episode" or, with sums over tokens
            divided by a stated length, "constant".
        loss_constant_tokens: the length that "constant" divides by, in tokens.
        loss_mask: train on the policy's own tokens only. False is the paper's ablation: the environment's text is
            trained on too.
        kl_in: where the KL to the reference is, weighted by beta: "loss", or "reward" (taken off the reward of each
            action token before advantages are estimated).
        kl_estimator: "k1", "k2" or "k3"; None is k3 in the loss and k1 in the reward, which takes no other.
        kl_target: mean KL per token, in nats, that beta is steered towards, by 2 % at most each time; None keeps beta.
        importance_correction: "token" weighs tokens by learner over sampler, "sequence" rows by the geometric mean over
            their tokens; "none" doesn't.
        importance_limit: what happens to weights out of bounds: "truncate" moves them to the bound, "mask" drops their
            tokens (or rows).
        min_importance_weight: the lower bound, >= 0.
        max_importance_weight: the upper bound, above the lower.
        sampler: what generates: "hf".
        max_in_flight: episodes played at once per process, >= 1.
        env_threads: tool calls at once per process, >= 1.
        env_deadline_s: how long the tools of one turn (or one reset) may take, in seconds; then the episode ends as
            failed and is left out.
        eval_tasks: tasks of the evaluation environment that ``evaluate()`` plays, one episode each; 0 for none.
        eval_temperature: of the sampler while evaluating; 0 is greedy.
        save_episodes: append every episode to ``output_dir/episodes.jsonl``.
    """

    env_id: str = "AgentR1/HotpotQA-v0"
    env_kwargs: dict[str, Any] = field(default_factory=dict)
    eval_env_kwargs: dict[str, Any] = field(default_factory=dict)
    max_turns: int | None = None
    max_turn_tokens: int | None = None
    max_observation_tokens: int | None = None
    max_context: int | None = None

    group_size: int | None = None
    prompts_per_step: int | None = None
    updates_per_rollout: int = 1

    estimator: str = "grpo"
    estimator_options: dict[str, Any] = field(default_factory=dict)
    anchor_similarity: float = 1.0
    overlong_tokens: int | None = None
    overlong_buffer_tokens: int = 256
    surrogate: str = "clipped"
    dual_clip_ratio: float = 3.0
    loss_aggregation: str = "token"
    loss_constant_tokens: int = 1024
    loss_mask: bool = True
    kl_in: str = "loss"
    kl_estimator: str | None = None
    kl_target: float | None = None
    importance_correction: str = "token"
    importance_limit: str = "truncate"
    min_importance_weight: float = 0.0
    max_importance_weight: float = 2.0

    sampler: str = "hf"
    max_in_flight: int = 256
    env_threads: int = 64
    env_deadline_s: float = 600.0

    eval_tasks: int = 0
    eval_temperature: float = 0.0
    save_episodes: bool = True

    # Other defaults than TRL's
    output_dir: str | None = "runs/train"
    logging_steps: float = 1
    report_to: str | list[str] | None = "tensorboard"
    gradient_checkpointing: bool | None = None  # on where there is an accelerator
    disable_dropout: bool = True  # old and new log-probabilities must differ by the weights alone
    per_device_eval_batch_size: int = 64

    def __post_init__(self) -> None:
        """Fills in what depends on the machine and on other options, and checks everything.

        Raises:
            ConfigError: an option is unknown to its registry, out of range, replaced, or contradicts another.
        """
        self._check_replaced()
        self._check_names_and_ranges()
        self._check_clip()
        self._check_kl()
        self._fit_machine()
        self._count_batches()
        try:
            super().__post_init__()
        except ValueError as error:
            raise ConfigError(str(error)) from error
        if self.steps_per_generation % self.gradient_accumulation_steps:
            raise ConfigError(
                f"steps_per_generation ({self.steps_per_generation}) must be a multiple of gradient_accumulation_steps "
                f"({self.gradient_accumulation_steps}), so that an update never mixes two generations; set "
                "prompts_per_step and updates_per_rollout instead"
            )

    @property
    def environment_options(self) -> dict[str, Any]:
        """The environment's options for training: ``env_kwargs`` and the budgets."""
        budgets = {name: getattr(self, name) for name in _BUDGETS if getattr(self, name) is not None}
        return {**self.env_kwargs, **budgets}

    @property
    def eval_environment_options(self) -> dict[str, Any]:
        """The environment's options for evaluation."""
        return {**self.environment_options, **self.eval_env_kwargs}

    @property
    def advantage_estimator(self) -> Estimator:
        """The estimator with its options.

        Raises:
            ConfigError: it is unknown, or an option is.
        """
        made = make_estimator(self.estimator, self.estimator_options)
        if self.overlong_tokens is None:
            return made
        return OverlongPenalised(made, self.overlong_tokens, self.overlong_buffer_tokens)

    @property
    def loss_settings(self) -> LossSettings:
        """The part that the loss reads; a KL in the reward is none of it."""
        high = self.epsilon if self.epsilon_high is None else self.epsilon_high
        return LossSettings(
            surrogate=self.surrogate,
            clip=Clip(self.epsilon, high, self.dual_clip_ratio),
            aggregation=self.loss_aggregation,
            kl_coef=self.beta if self.kl_in == "loss" else 0.0,
            kl_estimator=self.kl_estimator or "k3",
            entropy_coef=self.entropy_coef,
            importance_correction=self.importance_correction,
            importance_limit=self.importance_limit,
            importance_bounds=(self.min_importance_weight, self.max_importance_weight),
            max_tokens=float(self.loss_constant_tokens),
        )

    def _check_replaced(self) -> None:
        for option in fields(GRPOConfig):
            default = option.default_factory() if option.default is MISSING else option.default  # type: ignore[misc]
            if option.name in _REPLACED and getattr(self, option.name) != default:
                raise ConfigError(f"{option.name} is not read by this trainer; use instead: {_REPLACED[option.name]}")

    def _check_names_and_ranges(self) -> None:
        for registry, name in (
            (SURROGATES, self.surrogate),
            (AGGREGATIONS, self.loss_aggregation),
            (KL_ESTIMATORS, self.kl_estimator or "k3"),
            (IMPORTANCE_CORRECTIONS, self.importance_correction),
            (IMPORTANCE_LIMITS, self.importance_limit),
            (SAMPLERS, self.sampler),
        ):
            registry.get(name)  # type: ignore[attr-defined]
        self._check_estimator()
        for name in ("updates_per_rollout", "loss_constant_tokens", "max_in_flight", "env_threads", "num_iterations"):
            self._require(name, getattr(self, name) >= 1, ">= 1")
        for name in ("temperature", "max_importance_weight", "env_deadline_s"):
            self._require(name, getattr(self, name) > 0, "> 0")
        for name in ("beta", "epsilon", "eval_temperature", "eval_tasks", "min_importance_weight"):
            self._require(name, getattr(self, name) >= 0, ">= 0")
        for name in _BUDGETS:
            given = self.env_kwargs.get(name)
            if given is not None and getattr(self, name) not in (None, given):
                raise ConfigError(f"{name} is {getattr(self, name)}, but env_kwargs says {given}; give it once")
        if str(getattr(self.eval_strategy, "value", self.eval_strategy)) != "no" and self.eval_tasks == 0:
            raise ConfigError(
                f"eval_strategy={self.eval_strategy!s} needs eval_tasks, how many tasks to play each time"
            )

    def _check_estimator(self) -> None:
        self._require("anchor_similarity", 0 < self.anchor_similarity <= 1, "in (0, 1]")
        if self.overlong_tokens is not None:
            fits = 1 <= self.overlong_buffer_tokens <= self.overlong_tokens
            self._require("overlong_buffer_tokens", fits, f"in [1, overlong_tokens ({self.overlong_tokens})]")
        lacking = [what for name, what in _NOT_PROVIDED.items() if name in self.advantage_estimator.needs]
        if lacking:
            raise ConfigError(f"the estimator {self.estimator!r} needs {' and '.join(lacking)}")

    def _check_clip(self) -> None:
        above = self.max_importance_weight > self.min_importance_weight
        self._require("max_importance_weight", above, f"> min_importance_weight ({self.min_importance_weight})")
        if self.surrogate == "dual_clip":
            single = 1 + self.loss_settings.clip.high
            self._require("dual_clip_ratio", self.dual_clip_ratio > single, f"> 1 + epsilon_high ({single})")

    def _check_kl(self) -> None:
        if self.kl_in not in ("loss", "reward"):
            raise ConfigError(f"kl_in is {self.kl_in!r}, expected 'loss' or 'reward'; the term is in one of them alone")
        if self.kl_in == "reward" and self.beta == 0:
            raise ConfigError("kl_in='reward' does nothing without beta, its coefficient")
        if self.kl_in == "reward" and self.kl_estimator not in (None, "k1"):
            raise ConfigError(
                f"kl_estimator is {self.kl_estimator!r}, but a KL in the reward is k1: use k1, or kl_in='loss'"
            )
        if self.kl_target is not None:
            self._require("kl_target", self.kl_target > 0, "> 0, or None for a fixed beta")
            self._require("beta", self.beta > 0, "> 0 where kl_target steers it")

    def _require(self, name: str, holds: bool, range_: str) -> None:
        if not holds:
            raise ConfigError(f"{name} must be {range_}, got {getattr(self, name)}")

    def _fit_machine(self) -> None:
        """CPU-safe defaults: no bf16 and no gradient checkpointing where there is no accelerator."""
        self.use_cpu = self.use_cpu or not torch.accelerator.is_available()
        if self.bf16 is None:
            on_gpu = not self.use_cpu and torch.cuda.is_available()
            self.bf16 = not self.fp16 and on_gpu and torch.cuda.is_bf16_supported()
        if self.gradient_checkpointing is None:
            self.gradient_checkpointing = not self.use_cpu

    def _count_batches(self) -> None:
        """Turns prompts into TRL's counts of episodes and micro-batches."""
        trl_default = 8
        if self.group_size is None:
            self.group_size = self.num_generations
        elif self.num_generations not in (trl_default, self.group_size):
            raise ConfigError(f"group_size is {self.group_size}, but num_generations {self.num_generations}; give one")
        self.num_generations = self.group_size
        if self.group_size < 2:
            raise ConfigError(
                f"group_size must be >= 2, since an episode is compared with its group; got {self.group_size}"
            )
        if self.num_generations_eval not in (None, 1):
            raise ConfigError(f"num_generations_eval is {self.num_generations_eval}, but a task is evaluated once")
        self.num_generations_eval = 1
        if self.prompts_per_step is not None:
            self._accumulate(self.prompts_per_step * self.group_size)
        if self.updates_per_rollout > 1:
            if self.steps_per_generation is not None or self.generation_batch_size is not None:
                raise ConfigError("updates_per_rollout contradicts steps_per_generation and generation_batch_size")
            self.steps_per_generation = self.gradient_accumulation_steps * self.updates_per_rollout

    def _accumulate(self, episodes: int) -> None:
        processes = int(os.environ.get("WORLD_SIZE", "1"))
        at_once = self.per_device_train_batch_size * processes
        if episodes < 1 or episodes % at_once:
            raise ConfigError(
                f"prompts_per_step ({self.prompts_per_step}) x group_size ({self.group_size}) = {episodes} episodes is "
                f"no multiple of per_device_train_batch_size ({self.per_device_train_batch_size}) x processes "
                f"({processes})"
            )
        steps = episodes // at_once
        if self.gradient_accumulation_steps not in (1, steps):
            raise ConfigError(
                f"prompts_per_step makes gradient_accumulation_steps {steps}, but it is set to "
                f"{self.gradient_accumulation_steps}; give one"
            )
        self.gradient_accumulation_steps = steps
