"""The demo's story: a policy plays held-out questions, learns on others by GRPO, and plays the held-out ones again.

Every part is the one that any run uses: ``evaluate``, ``AgentTrainer``, the recipe ``hotpotqa_demo``, the report. What
is written is on disk as soon as it is known, so that Ctrl-C loses nothing.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
import logging
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
import transformers
from rich.console import Console
from rich.table import Table
from torch.utils.tensorboard import SummaryWriter
from transformers import AutoModelForCausalLM, PreTrainedModel, PrinterCallback
from transformers.integrations import TensorBoardCallback

from agent_envs.errors import ConfigError
from agent_envs.tokenizers import load_tokenizer
from agent_trainer.config import AgentConfig
from agent_trainer.demo import POLICY_FOLDER
from agent_trainer.errors import TrainingError
from agent_trainer.evaluate import Evaluation, EvaluationSettings, evaluate
from agent_trainer.progress import history_file, training_bar
from agent_trainer.recipe import load_recipe
from agent_trainer.report import HeldOut, RunSummary, before_after_page, plot_curves, read_pairs, write_summary
from agent_trainer.report.summary import comparison_rows
from agent_trainer.trainer import AgentTrainer

RECIPE = "hotpotqa_demo"
HELD_OUT = "mini/test"
TITLE = "Agent-R1 demo: a small policy learns to search and answer"

# What lies in the folder of a demo, in the order of interest.
FILES = {
    "curve.png": "the learning curves",
    "before_after.html": "the same questions before and after",
    "summary.md": "numbers, settings, seconds (also .json)",
    "model": "the trained policy",
    "before.jsonl": "held-out episodes before training",
    "after.jsonl": "held-out episodes after it",
    "episodes.jsonl": "episodes of training",
    "history.jsonl": "every number logged in training",
    "tensorboard": "the same: tensorboard --logdir ...",
}

# A model this small is slower on many threads than on a few.
_MAX_THREADS = 4


class Demo:
    """One run of the demo in a folder of its own."""

    def __init__(self, folder: Path, config: AgentConfig, policy: Path, questions: int, console: Console) -> None:
        """Takes what ``run_demo`` has prepared."""
        self.folder = folder
        self.config = config
        self.policy = policy
        self.questions = questions
        self.console = console
        self.seconds: dict[str, float] = {}
        self.history: list[dict[str, Any]] = []

    def run(self) -> RunSummary:
        """The whole story.

        Raises:
            KeyboardInterrupt: after Ctrl-C; what there was to draw is drawn.
            TrainingError: training cannot go on; likewise.
        """
        self._say(f"1/3  Before training: {self.questions} held-out questions, greedy")
        before = self._evaluate(self.policy, "before")
        self._say(f"2/3  Training: {self.config.max_steps} updates of {self._episodes_per_update} episodes")
        try:
            self._train()
        except (KeyboardInterrupt, TrainingError):
            self._draw([self._held_out("before training", 0, before)])
            raise
        self._say("3/3  After training: the same questions")
        after = self._evaluate(self.folder / "model", "after")
        updates = max((log["step"] for log in self.history), default=0)
        with self._timed("report"):
            self._draw([self._held_out("before training", 0, before), self._held_out("after training", updates, after)])
            pairs = read_pairs(self.folder / "before.jsonl", self.folder / "after.jsonl")
            tokenizer = load_tokenizer(self._environment(self.policy)["tokenizer"])
            before_after_page(pairs, self.folder / "before_after.html", tokenizer, title=TITLE)
        summary = RunSummary(TITLE, before, after, updates, self.config.seed, self.seconds, self._settings())
        write_summary(summary, self.folder)
        return summary

    @property
    def _episodes_per_update(self) -> int:
        batch: int = self.config.generation_batch_size
        return batch // self.config.updates_per_rollout

    def _environment(self, model: Path) -> dict[str, Any]:
        """The options of the held-out environment: those of training with another part of the world."""
        return {"tokenizer": str(model), **self.config.environment_options, "split": HELD_OUT}

    def _evaluate(self, model: Path, name: str) -> Evaluation:
        with self._timed(f"evaluation {name} training"):
            settings = EvaluationSettings(records=self.folder / f"{name}.jsonl", progress=self.console.is_terminal)
            result = evaluate(
                _load(model, self.config.device),
                self.config.env_id,
                self._environment(model),
                n=self.questions,
                settings=settings,
            )
        self.console.print(f"     exact match {result.em}")
        return result

    def _train(self) -> None:
        """Trains, and saves the policy in ``model``."""
        started = time.perf_counter()
        with (
            training_bar(self.console) as bar,
            history_file(self.folder / "history.jsonl") as lines,
            SummaryWriter(str(self.folder / "tensorboard")) as writer,
        ):
            callbacks = [bar, lines, TensorBoardCallback(writer)]
            trainer = AgentTrainer(model=str(self.policy), args=self.config, callbacks=callbacks)
            trainer.remove_callback(PrinterCallback)
            self.history = trainer.state.log_history
            try:
                trainer.train()
            finally:
                self.history = trainer.state.log_history
                playing = sum(log.get("seconds/rollout", 0.0) for log in self.history)
                self.seconds["training: playing"] = playing
                self.seconds["training: learning and the rest"] = time.perf_counter() - started - playing
        trainer.save_model(str(self.folder / "model"))

    def _draw(self, evaluations: Sequence[HeldOut]) -> None:
        plot_curves(self.history, evaluations, self.folder / "curve.png", title=TITLE)

    def _held_out(self, label: str, updates: int, result: Evaluation) -> HeldOut:
        return HeldOut(label, updates, result.em, result.questions)

    def _settings(self) -> dict[str, Any]:
        names = (
            *("env_id", "env_kwargs", "estimator", "group_size", "prompts_per_step", "loss_aggregation", "temperature"),
            *("learning_rate", "lr_scheduler_type", "max_grad_norm", "beta", "epsilon", "max_steps", "seed"),
        )
        chosen = {name: getattr(self.config, name) for name in names}
        return {"recipe": RECIPE, "policy": self.policy.name, "held_out": HELD_OUT, **chosen}

    def _say(self, text: str) -> None:
        self.console.print(text, style="bold")

    @contextmanager
    def _timed(self, phase: str) -> Iterator[None]:
        started = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[phase] = time.perf_counter() - started


def run_demo(
    out: Path,
    seed: int = 0,
    updates: int | None = None,
    questions: int = 600,
    policy: Path = POLICY_FOLDER,
    overrides: Sequence[str] = (),
    console: Console | None = None,
) -> RunSummary:
    """Evaluates a policy on held-out questions, trains it on others, and evaluates it again.

    Args:
        out: the folder to write; where it has something in it, the next free of ``out-2``, ``out-3``, ... is taken.
        seed: of training. The held-out questions are the same for every seed.
        updates: optimizer steps; None for the recipe's.
        questions: held-out questions, 1 to 600.
        policy: the folder of the policy to begin with.
        overrides: ``key=value`` words on top of the recipe.
        console: to talk on.

    Raises:
        ConfigError: an option is wrong, or there is no policy.
        KeyboardInterrupt: after Ctrl-C; what was written stays.
    """
    console = console or Console(stderr=True)
    config = _config(seed, updates, policy, overrides)
    folder = free_folder(out)
    config.output_dir = str(folder)
    console.print(f"Writing to {folder}", highlight=False, soft_wrap=True)
    torch.set_num_threads(min(torch.get_num_threads(), _MAX_THREADS))
    demo = Demo(folder, config, policy, questions, console)
    try:
        with _quiet():
            summary = demo.run()
    except KeyboardInterrupt:
        console.print("Stopped. What was written until now stays.", style="bold")
        _show_files(console, folder)
        raise
    console.print(_result_table(summary))
    _show_files(console, folder)
    again = f"agentr1 eval {folder / 'model'} {config.env_id} --recipe {RECIPE} --split {HELD_OUT} -n {questions}"
    console.print(f"To evaluate the trained policy again: {again}", highlight=False, soft_wrap=True)
    return summary


def free_folder(wanted: Path) -> Path:
    """Makes and gives the folder itself where it is new or empty, else the next free of ``NAME-2``, ``NAME-3``, ..."""
    for number in itertools.count(1):
        folder = wanted if number == 1 else wanted.with_name(f"{wanted.name}-{number}")
        if not folder.exists():
            folder.mkdir(parents=True)
            return folder
        if folder.is_dir() and not any(folder.iterdir()):
            return folder
    raise AssertionError("unreachable: there is always another number")


def _config(seed: int, updates: int | None, policy: Path, overrides: Sequence[str]) -> AgentConfig:
    """The recipe's options with those of the demo on top.

    Raises:
        ConfigError: an option is wrong, there is no policy, or training would see the held-out questions.
    """
    if not (policy / "config.json").is_file():
        raise ConfigError(f"no policy in {policy}: expected the folder of a transformers model with its tokenizer")
    own = [f"model={json.dumps(str(policy))}", f"seed={seed}"]
    if updates is not None:
        own.append(f"max_steps={updates}")
    recipe = load_recipe(RECIPE, [*overrides, *own])
    # The demo evaluates before and after training and shows its own bars, so nothing of that in between.
    fixed = {"eval_strategy": "no", "eval_tasks": 0, "save_strategy": "no", "report_to": "none", "disable_tqdm": True}
    config = dataclasses.replace(recipe, options={**recipe.options, **fixed}).config()
    if config.environment_options.get("split") in (HELD_OUT, HELD_OUT.removeprefix("mini/")):
        raise ConfigError(f"env_kwargs.split is {HELD_OUT}, the held-out questions; train on another part")
    return config


def _load(folder: Path, device: torch.device) -> PreTrainedModel:
    model: PreTrainedModel = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    return model.to(device).eval()


@contextmanager
def _quiet() -> Iterator[None]:
    """Silences what libraries say beside the point: only the demo's own lines and bars, and errors, are shown."""
    loggers = [logging.getLogger(name) for name in ("matplotlib", "accelerate", "trl")]
    levels = [logger.level for logger in loggers]
    verbosity, bars = transformers.logging.get_verbosity(), transformers.logging.is_progress_bar_enabled()
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    try:
        yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
        transformers.logging.set_verbosity(verbosity)
        if bars:
            transformers.logging.enable_progress_bar()


def _result_table(summary: RunSummary) -> Table:
    title = f"{summary.after.questions} held-out questions, mean [95 % interval]"
    table = Table("", "before", "after", title=title, title_justify="left")
    for label, before, after in comparison_rows(summary.before, summary.after):
        table.add_row(label, str(before), str(after), style="bold" if label == "exact match" else "")
    apart = "lie apart: it has learned" if summary.intervals_apart else "do not lie apart"
    minutes, seconds = divmod(round(sum(summary.seconds.values())), 60)
    table.caption = (
        f"The intervals of the exact match {apart}.\n{summary.updates} updates, {minutes} min {seconds} s in all."
    )
    table.caption_justify = "left"
    return table


def _show_files(console: Console, folder: Path) -> None:
    """Says what lies in the folder."""
    table = Table(box=None, show_header=False, pad_edge=False)
    for name, what in FILES.items():
        if (folder / name).exists():
            table.add_row(name, what)
    for checkpoint in sorted(folder.glob("checkpoint-*")):
        table.add_row(checkpoint.name, "the policy as training left it")
    console.print(f"In {folder}:", highlight=False, soft_wrap=True)
    console.print(table)
