"""Makes the demo's policy from nothing: tokenizer, weights, chat template, into ``agent_trainer/demo/policy``.

Five phases of supervised steps on demonstrations of freshly named worlds:

1. first turns only, faultless: short texts, in which copying a name is learned;
2. whole episodes, faultless: reading what comes back, the second search, the answer;
3. the same with more comparisons, which are learned last;
4. and 5. whole episodes, faulty: the same skills, with the bad habits that reinforcement is to break.

The loss counts the policy's own tokens, and the environment's with a smaller weight, which helps copying to form.
Matrices inside the layers learn by Muon (with AdamW the same steps don't learn to copy), the rest by AdamW.

Run: ``python -m agent_trainer.demo.make_policy`` (about 15 minutes on two free cores).
"""

from __future__ import annotations

import argparse
import dataclasses
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from torch import Tensor
from transformers import PreTrainedModel, Qwen3Config, Qwen3ForCausalLM
from transformers.utils import logging as transformers_logging

from agent_envs.tokenizers import Tokenizer, load_tokenizer
from agent_envs.types import Episode
from agent_trainer.demo import POLICY_FOLDER
from agent_trainer.demo.demonstrations import DEMO_OPTIONS, FAULTLESS, FAULTY, DemonstrationStream, Habits
from agent_trainer.demo.policy_tokenizer import VOCAB_SIZE, train_tokenizer
from agent_trainer.evaluate import EvaluationSettings, evaluate
from agent_trainer.sampler import SamplingParams

CONSOLE = Console(stderr=True, highlight=False)
REPORT_EVERY = 25


@dataclass(frozen=True, slots=True)
class Phase:
    """Some steps of one kind.

    Attributes:
        name: for the progress bar.
        steps: optimizer steps.
        batch: episodes per step.
        habits: of the demonstrator.
        first_turn_only: cut the episodes after the policy's first turn.
        peak: factor on the learning rates at the start of the phase; it falls in a line to ``floor``.
        floor: factor after ``fall_over`` steps.
        fall_over: steps that the fall is spread over; 0 for the phase's own.
        environment_weight: of the loss on the environment's tokens, beside 1 for the policy's own.
        bridges_kept: the share of bridge questions that are used, see ``DemonstrationStream``.
        restart: begin with fresh optimizers, a warm-up and a stream of demonstrations of its own.
    """

    name: str
    steps: int
    batch: int
    habits: Habits
    first_turn_only: bool = False
    peak: float = 1.0
    floor: float = 1.0
    fall_over: int = 0
    environment_weight: float = 0.3
    bridges_kept: float = 0.8
    restart: bool = False


PHASES = (
    Phase("copying", 90, 128, FAULTLESS, first_turn_only=True),
    Phase("reading", 810, 32, FAULTLESS, floor=0.05, fall_over=1100),
    Phase("comparing", 350, 32, FAULTLESS, peak=0.5, floor=0.03, bridges_kept=0.25, restart=True),
    Phase("bad habits", 80, 32, FAULTY, peak=0.1, floor=0.01, environment_weight=0.1, restart=True),
    Phase("worse habits", 80, 32, FAULTY, peak=0.1, floor=0.01, environment_weight=0.1, restart=True),
)
MATRIX_LEARNING_RATE = 0.05
OTHER_LEARNING_RATE = 0.007
WARMUP_STEPS = 20


def make_model(seed: int, pad_id: int, end_id: int) -> PreTrainedModel:
    """A Qwen3-style model of about a million parameters: grouped-query attention, tied embeddings, rotary positions."""
    torch.manual_seed(seed)
    config = Qwen3Config(
        vocab_size=VOCAB_SIZE,
        hidden_size=128,
        intermediate_size=384,
        num_hidden_layers=4,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=32,
        max_position_embeddings=1024,
        tie_word_embeddings=True,
        bos_token_id=None,
        pad_token_id=0,
        eos_token_id=1,
    )
    model = Qwen3ForCausalLM(config)
    # Told to the finished model only: transformers freezes the embedding of a padding id that it knows beforehand.
    for settings in (model.config, model.generation_config):
        settings.pad_token_id, settings.eos_token_id = pad_id, end_id
    return model


def make_optimizers(model: PreTrainedModel) -> list[torch.optim.Optimizer]:
    """Muon for the matrices of the layers, AdamW for embeddings and norms."""
    matrices = [p for name, p in model.named_parameters() if p.ndim == 2 and "embed" not in name]
    others = [p for name, p in model.named_parameters() if p.ndim != 2 or "embed" in name]
    return [
        torch.optim.Muon(matrices, lr=MATRIX_LEARNING_RATE, weight_decay=0.01, momentum=0.95),
        torch.optim.AdamW(others, lr=OTHER_LEARNING_RATE, betas=(0.9, 0.95), weight_decay=0.0),
    ]


def collate(episodes: Sequence[Episode], first_turn_only: bool) -> tuple[Tensor, Tensor, Tensor]:
    """Pads episodes on the right: ids int64 ``[B, T]``, own (True = the policy's) and known (True = no padding)."""
    stops = [episode.turns[0].stop if first_turn_only else len(episode.tokens) for episode in episodes]
    shape = (len(episodes), max(stops))
    ids, own, known = np.zeros(shape, np.int64), np.zeros(shape, np.bool_), np.zeros(shape, np.bool_)
    for row, (episode, stop) in enumerate(zip(episodes, stops, strict=True)):
        ids[row, :stop] = episode.tokens[:stop]
        own[row, :stop] = episode.action_mask[:stop]
        known[row, :stop] = True
    return torch.from_numpy(ids), torch.from_numpy(own), torch.from_numpy(known)


def loss_of(
    model: PreTrainedModel, batch: tuple[Tensor, Tensor, Tensor], environment_weight: float
) -> tuple[Tensor, float]:
    """The loss, and the share of the policy's own tokens that the model would have chosen."""
    ids, own, known = batch
    hidden = model.model(input_ids=ids).last_hidden_state[:, :-1]  # padding is on the right: causality is mask enough
    chosen = known[:, 1:]
    logits, targets, mine = model.lm_head(hidden[chosen]), ids[:, 1:][chosen], own[:, 1:][chosen]
    losses = F.cross_entropy(logits, targets, reduction="none")
    right = (logits[mine].argmax(-1) == targets[mine]).float().mean()
    return losses[mine].mean() + environment_weight * losses[~mine].mean(), float(right)


class Course:
    """A run of phases that share optimizers and a stream of demonstrations."""

    def __init__(self, model: PreTrainedModel, stream: DemonstrationStream) -> None:
        """Begins with fresh optimizers."""
        self.model = model
        self.stream = stream
        self.steps = 0
        self.right = 0.0
        self._optimizers = make_optimizers(model)
        self._rates = [optimizer.param_groups[0]["lr"] for optimizer in self._optimizers]

    def step(self, phase: Phase, number: int) -> None:
        """One optimizer step, the ``number``-th of its phase.

        Raises:
            RuntimeError: the loss is not finite.
        """
        factor = phase.peak + (phase.floor - phase.peak) * number / (phase.fall_over or phase.steps)
        _set_rates(self._optimizers, self._rates, factor * min(1.0, (self.steps + 1) / WARMUP_STEPS))
        batch = collate(self.stream.draw(phase.batch, phase.habits), phase.first_turn_only)
        loss, right = loss_of(self.model, batch, phase.environment_weight)
        if not math.isfinite(loss.item()):
            raise RuntimeError(f"the loss is {loss.item()} at step {self.steps}: lower the learning rates")
        _step(self.model, self._optimizers, loss)
        self.steps += 1
        self.right += (right - self.right) * max(0.05, 1 / self.steps)


def train(model: PreTrainedModel, tokenizer: Tokenizer, seed: int, phases: Sequence[Phase], folder: Path) -> None:
    """Runs the phases; the folder gets the policy after each."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    course = Course(model, DemonstrationStream(f"warm start/{seed}", tokenizer))
    with Progress(*columns, console=CONSOLE) as bar:
        for phase in phases:
            if phase.restart:
                own = DemonstrationStream(f"warm start/{seed}/{phase.name}", tokenizer, phase.bridges_kept)
                course = Course(model, own)
            _run_phase(course, phase, bar)
            model.save_pretrained(folder)


def _run_phase(course: Course, phase: Phase, bar: Progress) -> None:
    task = bar.add_task(phase.name, total=phase.steps)
    for number in range(phase.steps):
        course.step(phase, number)
        bar.update(task, advance=1, description=f"{phase.name}: own tokens right {course.right:.3f}")
        if course.steps % REPORT_EVERY == 0:
            CONSOLE.print(f"{course.steps}: {phase.name}: own tokens right {course.right:.3f}")


def _set_rates(optimizers: Sequence[torch.optim.Optimizer], rates: Sequence[float], factor: float) -> None:
    for optimizer, rate in zip(optimizers, rates, strict=True):
        optimizer.param_groups[0]["lr"] = rate * factor


def _step(model: PreTrainedModel, optimizers: Sequence[torch.optim.Optimizer], loss: Tensor) -> None:
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    for optimizer in optimizers:
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)


def report(model: PreTrainedModel, folder: Path, questions: int) -> None:
    """Prints exact match on the held-out parts, greedy and sampled."""
    for part in ("validation", "test"):
        for temperature in (0.0, 1.0):
            settings = EvaluationSettings(sampling=SamplingParams(temperature=temperature), progress=False)
            options = {**DEMO_OPTIONS, "split": f"mini/{part}", "tokenizer": str(folder)}
            result = evaluate(model, "AgentR1/HotpotQA-v0", options, questions, settings)
            CONSOLE.print(f"{part}, temperature {temperature:.0f}: exact match {result.em}, F1 {result.f1}")


def main() -> None:
    """Reads the command line, makes the policy and says how good it is."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=POLICY_FOLDER, help="the folder to write (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="of the weights and demonstrations (default: 0)")
    parser.add_argument("--threads", type=int, default=2, help="of the CPU (default: 2)")
    parser.add_argument("--questions", type=int, default=300, help="to evaluate on, per part (default: 300)")
    parser.add_argument("--scale", type=float, default=1.0, help="factor on the number of steps (default: 1)")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    transformers_logging.disable_progress_bar()
    started = time.perf_counter()
    tokenizer = train_tokenizer()
    tokenizer.save_pretrained(arguments.out, save_jinja_files=False)
    model = make_model(arguments.seed, tokenizer.pad_token_id, tokenizer.eos_token_id)
    CONSOLE.print(f"{model.num_parameters():,} parameters; tokenizer after {time.perf_counter() - started:.0f} s")
    phases = [scaled(phase, arguments.scale) for phase in PHASES]
    train(model, load_tokenizer(str(arguments.out)), arguments.seed, phases, arguments.out)
    CONSOLE.print(f"trained after {time.perf_counter() - started:.0f} s")
    report(model.eval(), arguments.out, arguments.questions)


def scaled(phase: Phase, factor: float) -> Phase:
    """The phase with its number of steps multiplied, at least one."""
    shorter = {name: max(1, round(getattr(phase, name) * factor)) for name in ("steps", "fall_over")}
    return dataclasses.replace(phase, **{name: steps for name, steps in shorter.items() if getattr(phase, name)})


if __name__ == "__main__":
    main()
