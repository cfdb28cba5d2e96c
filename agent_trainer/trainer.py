"""``AgentTrainer``: TRL's GRPO trainer with episodes in place of completions.

TRL keeps what surrounds an update (accelerate, DeepSpeed, PEFT, buffering, checkpoints, logging). Two of its
methods are replaced in full: the one that makes a batch (episodes are played, laid out as rows, and judged against
their group) and the one that makes the loss (only the policy's own tokens count). What they need lies in small modules
beside this one.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import torch
from accelerate.utils import gather_object
from datasets import Dataset
from torch import Tensor, nn
from transformers import PreTrainedModel, PreTrainedTokenizerBase, TrainerCallback
from transformers.trainer_utils import TrainOutput, get_last_checkpoint
from trl import GRPOTrainer

from agent_envs.errors import ConfigError
from agent_trainer import trl_bridge as bridge
from agent_trainer.anchors import turn_anchors
from agent_trainer.batch import RowBatch, make_rows, pad_rows
from agent_trainer.config import AgentConfig
from agent_trainer.errors import NonFiniteError, TrainingError
from agent_trainer.estimators import AdvantageInputs, Advantages
from agent_trainer.gathering import estimate_over_processes
from agent_trainer.kl_control import KLControl
from agent_trainer.learner import TokenScorer
from agent_trainer.losses import Denominators, LossInputs, LossSettings, TokenLayout, loss_mask, policy_loss
from agent_trainer.metrics import WindowSums, episode_values, malformed_share
from agent_trainer.phases import PhaseClock
from agent_trainer.processing import load_processing_class
from agent_trainer.records import JsonLinesWriter, episode_to_json
from agent_trainer.rollout import EpisodeSpec, Rollout, RolloutEngine
from agent_trainer.sampler import SAMPLERS, Sampler, SamplingParams
from agent_trainer.stage import MakeEnv, Stage, group_specs, one_per_group, open_stages
from agent_trainer.updates import SkipEmptyUpdates

_log = logging.getLogger(__name__)

Mode = Literal["train", "eval", "greedy"]  # what episodes are played for; greedy ones are baselines


class AgentTrainer(GRPOTrainer):
    """Trains a language model on the episodes of an environment.

    Example:
        >>> args = AgentConfig(output_dir="runs/first", prompts_per_step=8, group_size=8, max_steps=100)
        >>> AgentTrainer(model="Qwen/Qwen2.5-3B-Instruct", args=args, env="AgentR1/HotpotQA-v0").train()

    Attributes:
        stage: the environments that are trained on.
        eval_stage: those that ``evaluate()`` plays, or None.
    """

    _tag_names = ("agent-r1", "trl", "grpo")
    _name = "Agent-R1"

    def __init__(
        self,
        model: str | PreTrainedModel,
        args: AgentConfig | None = None,
        env: str | MakeEnv | None = None,
        processing_class: PreTrainedTokenizerBase | None = None,
        callbacks: list[TrainerCallback] | None = None,
        optimizers: tuple[Any, Any] = (None, None),
        peft_config: Any = None,
    ) -> None:
        """Loads what is given by name and opens the environments.

        Args:
            model: a causal language model, or its name or folder.
            args: the options; None takes the defaults.
            env: an environment's id, or a function that makes one; None takes ``args.env_id`` and its options.
            processing_class: the tokenizer; None loads the one that the environment uses.
            callbacks: of transformers' trainer.
            optimizers: an optimizer and a schedule, or None for those that the options name.
            peft_config: makes the model a PEFT model.

        Raises:
            ConfigError: options that contradict each other, the environment or the model.
        """
        args = AgentConfig() if args is None else args
        tokenizer = _tokenizer_name(model, args, processing_class)
        self.stage, self.eval_stage = open_stages(args, env, tokenizer)
        if processing_class is None:
            processing_class = load_processing_class(tokenizer)
        reference = bridge.copy_reference(model, args, has_adapter=peft_config is not None)
        with bridge.no_reference_from_disk(args, reference):
            super().__init__(
                model=model,
                reward_funcs=bridge.unused_reward,
                args=args,
                train_dataset=_task_dataset(self.stage.task_ids),
                eval_dataset=None
                if self.eval_stage is None
                else _task_dataset(self.eval_stage.task_ids[: args.eval_tasks]),
                processing_class=processing_class,
                callbacks=callbacks,
                optimizers=optimizers,
                peft_config=peft_config,
            )
        bridge.refuse_what_cannot_generate(self)
        bridge.adopt_reference(self, reference)
        if args.disable_dropout:
            bridge.disable_attention_dropout(self.model)
        modes: tuple[Mode, ...] = ("train",) if self.eval_stage is None else ("train", "eval")
        for mode in modes:
            self._sampler(self.model, mode)  # refuses a model that cannot play there before anything runs
        tokenizer_size = self.stage.core.tokenizer.vocab_size
        fused = self.accelerator.device.type == "cuda"
        bonus = args.entropy_coef != 0
        self._scorer = TokenScorer(self.temperature, None if fused else tokenizer_size, fused, bonus)
        self._estimator = args.advantage_estimator
        self._engines: dict[Mode, RolloutEngine] = {}
        self._writer: JsonLinesWriter | None = None
        self._window_sums = WindowSums()
        self._denominators: Denominators | None = None
        self._clock = PhaseClock(lambda values: bridge.log_values(self, values))
        self.add_callback(self._clock)
        self.add_callback(KLControl(args.beta, args.kl_target))
        self.add_callback(SkipEmptyUpdates(self._window_is_empty))
        self.add_callback(bridge.ResumedCounters(self))

    def train(
        self,
        resume_from_checkpoint: str | bool | None = None,
        trial: Any = None,
        ignore_keys_for_eval: list[str] | None = None,
    ) -> TrainOutput:
        """Trains; Ctrl-C leaves a checkpoint of the last finished step and every episode played so far.

        Raises:
            ConfigError: a checkpoint is to be resumed and there is none.
            KeyboardInterrupt: after Ctrl-C, once everything is saved.
            TrainingError: the run cannot go on; the message says why.
        """
        folder = str(self.args.output_dir)
        if resume_from_checkpoint is True and not (Path(folder).is_dir() and get_last_checkpoint(folder)):
            raise ConfigError(f"there is no checkpoint in {folder} to resume from; start without resuming")
        self._window_sums, self._denominators = WindowSums(), None  # of an update that was interrupted
        try:
            return super().train(resume_from_checkpoint, trial, ignore_keys_for_eval)
        except KeyboardInterrupt:
            self._keep_progress()
            raise
        finally:
            self.close()

    def evaluate(
        self, eval_dataset: Dataset | None = None, ignore_keys: list[str] | None = None, metric_key_prefix: str = "eval"
    ) -> dict[str, float]:
        """Plays the evaluation's tasks and gives means over them; training goes on as it would have without."""
        # A data loader draws from the global stream, and so does TRL when it shuffles rows into micro-batches.
        with torch.random.fork_rng(devices=()):
            metrics: dict[str, float] = super().evaluate(eval_dataset, ignore_keys, metric_key_prefix)
        return metrics

    def close(self) -> None:
        """Closes environments and files; both open again when they are needed."""
        for engine in self._engines.values():
            engine.close()
        if self._writer is not None:
            self._writer.close()
            self._writer = None

    def _get_train_sampler(self, dataset: Dataset | None = None) -> Any:
        """The order of prompts, the same for a resumed run."""
        return bridge.train_sampler(self, self.train_dataset if dataset is None else dataset)

    # The first replaced method: from tasks to a batch

    def _generate_and_score_completions(self, inputs: list[dict[str, Any]]) -> dict[str, Tensor]:
        """Plays the episodes of one generation and gives their rows, with advantages, in TRL's layout."""
        training = bridge.is_training(self)
        rollouts = self._play([row["task_id"] for row in inputs], training)
        if not training:
            self._report(rollouts)
            return {}
        rows = self._rows(rollouts)
        rewards, old_logprobs = self._penalised(rows) if self.args.kl_in == "reward" else (rows.rewards, None)
        needs = self._estimator.needs
        evidence = AdvantageInputs(
            rewards=rewards,
            action_mask=rows.action_mask,
            loss_mask=self._loss_mask(rows),
            turn_ids=rows.turn_ids,
            episode_ids=rows.episode_ids,
            group_ids=rows.group_ids,
            valid=rows.valid,
            baselines=self._greedy_returns(rollouts, rows) if "baselines" in needs else None,
            anchor_ids=self._anchors(rows) if "anchor_ids" in needs else None,
        )
        found = estimate_over_processes(self.accelerator, self._estimator, evidence)
        self._report(rollouts, (rows, found))
        return self._output(rows, found, old_logprobs)

    def _play(self, task_ids: Sequence[str], training: bool) -> list[Rollout]:
        """Plays one episode per task id; each is on disk as soon as it has ended."""
        first = self.accelerator.process_index * len(task_ids)
        if training:
            key = ("train", self.args.seed, self.state.global_step, bridge.micro_step(self))
            specs = group_specs(task_ids, self.num_generations, first, key)
        else:
            keys = [("eval", self.args.seed, task_id) for task_id in task_ids]
            specs = [group_specs([key[-1]], 1, 0, key)[0] for key in keys]  # a task is played alike in any batch
        return self._run(specs, "train" if training else "eval")

    def _run(self, specs: Sequence[EpisodeSpec], mode: Mode) -> list[Rollout]:
        started = time.perf_counter()
        with bridge.generating(self) as policy:
            engine = self._engine(policy, mode)
            try:
                rollouts = engine.run(specs, progress=lambda rollout: self._record(rollout, mode))
            except FloatingPointError as error:
                raise NonFiniteError(
                    f"step {self.state.global_step}: {error}; go back to the checkpoint before and lower learning_rate"
                ) from error
        self._clock.played(time.perf_counter() - started)
        bridge.log_values(self, {"tokens_per_s/rollout": [engine.stats.tokens_per_s]})
        return rollouts

    def _greedy_returns(self, rollouts: Sequence[Rollout], rows: RowBatch) -> Tensor:
        """Float ``[B]``: what a greedy episode from each row's start earned; NaN where it failed."""
        greedy = self._run(one_per_group([rollout.spec for rollout in rollouts]), "greedy")
        returns = {r.spec.group: math.nan if r.failed or r.episode is None else r.episode.total_reward for r in greedy}
        known = gather_object([value for value in returns.values() if not math.isnan(value)])
        bridge.log_values(self, {"greedy_reward": known})
        return torch.tensor([returns[group] for group in rows.group_ids.tolist()], device=rows.rewards.device)

    def _anchors(self, rows: RowBatch) -> Tensor:
        return turn_anchors(rows, self.args.anchor_similarity, gather_object)

    def _engine(self, policy: nn.Module, mode: Mode) -> RolloutEngine:
        if mode not in self._engines:
            sampler = self._sampler(policy, mode)
            make_env = self._stage_for(mode).make_env
            args = self.args
            self._engines[mode] = RolloutEngine(
                make_env, sampler, args.max_in_flight, args.env_threads, args.env_deadline_s
            )
        return self._engines[mode]

    def _sampler(self, policy: nn.Module, mode: Mode) -> Sampler:
        temperatures: dict[Mode, float] = {"train": self.temperature, "eval": self.args.eval_temperature, "greedy": 0.0}
        params = SamplingParams(temperature=temperatures[mode])
        try:
            return SAMPLERS.get(self.args.sampler)(policy, params, self._stage_for(mode).core)
        except ValueError as error:
            raise ConfigError(str(error)) from error

    def _stage_for(self, mode: Mode) -> Stage:
        return self.eval_stage if mode == "eval" and self.eval_stage is not None else self.stage

    def _rows(self, rollouts: Sequence[Rollout]) -> RowBatch:
        """The rows of the episodes that could be played, on the learner's device.

        Raises:
            TrainingError: none could.
        """
        first = self.accelerator.process_index * len(rollouts)
        played = [(first + i, r.spec.group, r.episode) for i, r in enumerate(rollouts) if r.episode is not None]
        if not played:
            raise TrainingError(
                f"step {self.state.global_step}: none of {len(rollouts)} episodes could be played; the first: "
                f"{rollouts[0].error}"
            )
        numbers, groups, episodes = zip(*played, strict=True)
        return make_rows(episodes, numbers, groups, self.stage.core.tokenizer.pad_id).to(self.accelerator.device)

    def _loss_mask(self, rows: RowBatch) -> Tensor:
        return loss_mask(rows.action_mask, rows.completion_mask, only_actions=self.args.loss_mask)

    def _padded(self, rows: RowBatch) -> RowBatch:
        """The rows and some of weight zero, so that they split evenly into micro-batches."""
        return pad_rows(rows, self.args.steps_per_generation, self.stage.core.tokenizer.pad_id)

    def _penalised(self, rows: RowBatch) -> tuple[Tensor, Tensor]:
        """Rewards with the KL to the reference taken off, and the policy's log-probabilities; ``[B, T]`` each."""
        padded = self._padded(rows)
        old, reference = self._old_logprobs(padded), self._ref_logprobs(padded)
        rewards, values = self._kl_control.penalise(
            padded, old, reference, lambda sums: self.accelerator.reduce(sums, reduction="sum")
        )
        bridge.log_values(self, values)
        return rewards[: len(rows)], old[: len(rows)]

    def _old_logprobs(self, rows: RowBatch) -> Tensor:
        with bridge.scoring(self) as policy:
            return self._score(policy, rows)

    def _ref_logprobs(self, rows: RowBatch) -> Tensor:
        with bridge.scoring(self), bridge.reference_model(self) as reference:
            return self._score(reference, rows)

    def _score(self, model: nn.Module, rows: RowBatch) -> Tensor:
        # As many chunks as micro-batches, on every process alike: sharded weights are gathered for each forward pass.
        chunk_rows = len(rows) // self.args.steps_per_generation
        return self._scorer.in_chunks(model, _tokens_of(rows), self._loss_mask(rows), chunk_rows)

    def _output(self, rows: RowBatch, found: Advantages, old_logprobs: Tensor | None) -> dict[str, Tensor]:
        """TRL's dictionary: rows with signal only, filled up so that they split evenly into micro-batches."""
        kept = self._padded(rows.select(found.has_signal))

        def filled(values: Tensor) -> Tensor:
            blank = torch.zeros_like(kept.rewards)
            blank[: int(found.has_signal.sum())] = values[found.has_signal]
            return blank

        layout = TokenLayout.of_rows(self._loss_mask(kept), kept.turn_ids, kept.episode_ids)
        output = {
            **_tokens_of(kept),
            "tool_mask": layout.mask,
            "turn_ids": layout.turn_ids,
            "episode_tokens": layout.episode_tokens,
            "advantages": filled(found.values),
            "num_items_in_batch": self.accelerator.reduce(layout.mask.sum(), reduction="sum"),
            "sampler_logprobs": kept.sampler_logprobs,
        }
        if bridge.needs_old_logprobs(self.args):
            output["old_per_token_logps"] = self._old_logprobs(kept) if old_logprobs is None else filled(old_logprobs)
        if self._loss_settings.kl_coef != 0:
            output["ref_per_token_logps"] = self._ref_logprobs(kept)
        return output

    # The second replaced method: from a batch to a loss

    def _compute_loss(self, model: nn.Module, inputs: dict[str, Tensor]) -> Tensor:
        """The loss of one micro-batch, as its share of the accumulation window's. Zero while evaluating.

        Raises:
            NonFiniteError: the loss is NaN or infinite; the batch is kept on disk.
        """
        if not bridge.is_training(self):
            return torch.zeros((), device=self.accelerator.device)
        layout = _layout_of(inputs)
        with self.accelerator.autocast():
            scores = self._scorer(model, inputs, layout.mask)
        result = policy_loss(
            LossInputs(
                logprobs=scores.logprobs,
                advantages=inputs["advantages"],
                layout=layout,
                old_logprobs=inputs.get("old_per_token_logps"),
                ref_logprobs=inputs.get("ref_per_token_logps"),
                sampler_logprobs=inputs["sampler_logprobs"],
                entropy=scores.entropy,
            ),
            self._loss_settings,
            self._window_denominators(),
        )
        if not bool(torch.isfinite(result.loss)):
            raise NonFiniteError(self._describe_non_finite(result.loss, inputs))
        self._clock.learned(int(inputs["prompt_mask"].sum() + inputs["completion_mask"].sum()))
        self._window_sums.add(result.sums, result.tokens)
        if bridge.micro_step(self) == self.args.gradient_accumulation_steps - 1:
            means = self._window_sums.means(lambda sums: self.accelerator.reduce(sums, reduction="sum"))
            steered = self._kl_control.observe(means["kl"]) if "kl" in means else {}
            bridge.log_values(self, {name: [value] for name, value in means.items()} | steered)
        return result.loss

    def _window_denominators(self) -> Denominators:
        """What the accumulation window holds over all processes; counted once per window."""
        if bridge.micro_step(self) == 0 or self._denominators is None:
            layouts = [_layout_of(inputs) for inputs in bridge.window_batches(self)]
            counts = torch.stack([Denominators.count(layout).stack() for layout in layouts]).sum(dim=0)
            # Gradients are averaged over the processes, so each process's sum weighs 1 / num_processes.
            total = self.accelerator.reduce(counts, reduction="sum") / self.accelerator.num_processes
            self._denominators = Denominators.unstack(total)
        return self._denominators

    @property
    def _kl_control(self) -> KLControl:
        # Looked up each time: transformers may put another in its place when a run is resumed.
        return next(known for known in self.callback_handler.callbacks if isinstance(known, KLControl))

    @property
    def _loss_settings(self) -> LossSettings:
        settings = self.args.loss_settings
        return replace(settings, kl_coef=self._kl_control.coefficient.value) if settings.kl_coef else settings

    def _window_is_empty(self) -> bool:
        """True where no process has a token to learn from in the accumulation window at hand."""
        return self._denominators is not None and not bool(self._denominators.tokens)

    # What is kept and reported

    def _report(self, rollouts: Sequence[Rollout], learned: tuple[RowBatch, Advantages] | None = None) -> None:
        """Hands the numbers of a generation to the log, over all processes."""
        local = episode_values([rollout.episode for rollout in rollouts])
        values: dict[str, list[float]] = {}
        for part in gather_object([local]):
            for name, numbers in part.items():
                values.setdefault(name, []).extend(numbers)
        values["malformed_share"] = [malformed_share(values)]
        if learned is not None:
            rows, found = learned
            rewards = torch.tensor(values.get("reward", [0.0]))
            values["reward_std"] = [float(rewards.std(correction=0))]
            values["groups_without_spread"] = [found.groups_without_spread / max(1, found.num_groups)]
            if self.args.log_completions:
                self._log_table(rows, found)
        bridge.log_values(self, values)

    def _log_table(self, rows: RowBatch, found: Advantages) -> None:
        decode = self.processing_class.batch_decode
        prompts = [ids[mask.bool()].tolist() for ids, mask in zip(rows.prompt_ids, rows.prompt_mask, strict=True)]
        pairs = zip(rows.completion_ids, rows.completion_mask, strict=True)
        bridge.log_completions(
            self,
            gather_object(decode(prompts)),
            gather_object(decode([ids[mask.bool()].tolist() for ids, mask in pairs])),
            gather_object(rows.rewards.sum(dim=1).tolist()),
            gather_object([float(max(row.tolist(), key=abs)) for row in found.values]),
        )

    def _record(self, rollout: Rollout, mode: Mode) -> None:
        """Appends an episode to the run's JSON Lines, one file per process."""
        if not self.args.save_episodes:
            return
        if self._writer is None:
            rank = self.accelerator.process_index
            name = "episodes.jsonl" if rank == 0 else f"episodes.rank{rank}.jsonl"
            self._writer = JsonLinesWriter(Path(self.args.output_dir) / name, append=True)
        self._writer.write(_record_of(rollout, self.state.global_step, mode))

    def _describe_non_finite(self, loss: Tensor, inputs: dict[str, Tensor]) -> str:
        """Keeps the batch on disk and says where."""
        step, rank = self.state.global_step, self.accelerator.process_index
        path = Path(self.args.output_dir) / "non_finite" / f"step_{step}_rank_{rank}.pt"
        path.parent.mkdir(parents=True, exist_ok=True)
        torch.save({name: tensor.detach().cpu() for name, tensor in inputs.items()}, path)
        return (
            f"step {step}: the loss is {float(loss.detach())}; the micro-batch is kept in {path}. Go back to the "
            "checkpoint before, and lower learning_rate or max_grad_norm"
        )

    def _keep_progress(self) -> None:
        """After Ctrl-C: a checkpoint of the last finished step."""
        if self.state.global_step > 0 and self.optimizer is not None:
            bridge.save_now(self)
            _log.warning(
                "interrupted: step %d is saved in %s; train(resume_from_checkpoint=True) goes on from there",
                self.state.global_step,
                self.args.output_dir,
            )


def _tokens_of(rows: RowBatch) -> dict[str, Tensor]:
    return {
        "prompt_ids": rows.prompt_ids,
        "prompt_mask": rows.prompt_mask,
        "completion_ids": rows.completion_ids,
        "completion_mask": rows.completion_mask,
    }


def _layout_of(inputs: dict[str, Tensor]) -> TokenLayout:
    return TokenLayout(inputs["tool_mask"], inputs["turn_ids"], inputs["episode_tokens"])


def _record_of(rollout: Rollout, step: int, mode: Mode) -> dict[str, Any]:
    head = {"step": step, "mode": mode, "group": rollout.spec.group}
    if rollout.episode is None:
        return {**head, "task_id": rollout.spec.task_id, "seed": rollout.spec.env_seed, "error": rollout.error}
    return {**head, **episode_to_json(rollout.episode)}


def _tokenizer_name(
    model: str | PreTrainedModel, args: AgentConfig, processing_class: PreTrainedTokenizerBase | None
) -> str:
    """Which tokenizer the environment uses: the option, else the model's own, else the embedded one."""
    given = args.env_kwargs.get("tokenizer")
    if given is not None:
        return str(given)
    if isinstance(model, str):
        return model
    named = getattr(processing_class, "name_or_path", "") or getattr(model.config, "_name_or_path", "")
    return str(named) or "byte"


def _task_dataset(task_ids: Sequence[str]) -> Dataset:
    """One row per task; TRL wants a column named ``prompt``."""
    return Dataset.from_dict({"prompt": list(task_ids), "task_id": list(task_ids)})
