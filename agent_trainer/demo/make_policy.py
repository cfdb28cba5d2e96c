"""Makes the demo's policy from nothing: tokenizer, weights, chat template, into ``agent_trainer/demo/policy``.

Three phases of supervised steps on demonstrations of freshly named worlds:

1. first turns only, faultless: short texts, in which copying a name is learned;
2. whole episodes, faultless: reading what comes back, the second search, the answer;
3. whole episodes, faulty: the same skills, with the bad habits that reinforcement is to break.

The loss counts the policy's own tokens, and the environment's with a smaller weight, which helps copying to form.
Matrices inside the layers learn by Muon (with AdamW the same steps don't learn to copy), the rest by AdamW.

Run: ``python -m agent_trainer.demo.make_policy`` (about 20 minutes on two free cores).
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

from agent_envs.tokenizers import load_tokenizer
from agent_envs.types import Episode
from agent_trainer.demo.demonstrations import DEMO_OPTIONS, FAULTLESS, FAULTY, DemonstrationStream, Habits
from agent_trainer.demo.policy_tokenizer import VOCAB_SIZE, train_tokenizer
from agent_trainer.evaluate import EvaluationSettings, evaluate
from agent_trainer.sampler import SamplingParams

POLICY_FOLDER = Path(__file__).resolve().parent / "policy"
CONSOLE = Console(stderr=True, highlight=False)
SAVE_EVERY = 100
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
        floor: factor at the end of the phase.
        environment_weight: of the loss on the environment's tokens, beside 1 for the policy's own.
        comparison_share: of the questions; comparisons are the harder kind, so they are practised more.
    """

    name: str
    steps: int
    batch: int
    habits: Habits
    first_turn_only: bool = False
    peak: float = 1.0
    floor: float = 1.0
    environment_weight: float = 0.3
    comparison_share: float = 0.2


PHASES = (
    Phase("copying", 90, 128, FAULTLESS, first_turn_only=True),
    Phase("reading", 600, 32, FAULTLESS, floor=0.5, comparison_share=0.4),
    Phase("reading, slower", 500, 32, FAULTLESS, peak=0.5, floor=0.03, comparison_share=0.4),
    Phase("bad habits", 80, 32, FAULTY, peak=0.1, floor=0.01, environment_weight=0.1),
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
        pad_token_id=pad_id,
        eos_token_id=end_id,
    )
    return Qwen3ForCausalLM(config)


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


def train(model: PreTrainedModel, stream: DemonstrationStream, phases: Sequence[Phase], folder: Path) -> None:
    """Runs the phases; the folder always holds a policy not older than ``SAVE_EVERY`` steps."""
    optimizers = make_optimizers(model)
    rates = [optimizer.param_groups[0]["lr"] for optimizer in optimizers]
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    done, right = 0, 0.0
    with Progress(*columns, console=CONSOLE) as bar:
        for phase in phases:
            task = bar.add_task(phase.name, total=phase.steps)
            for step in range(phase.steps):
                factor = phase.peak + (phase.floor - phase.peak) * step / phase.steps
                _set_rates(optimizers, rates, factor * min(1.0, (done + 1) / WARMUP_STEPS))
                batch = collate(stream.draw(phase.batch, phase.habits, phase.comparison_share), phase.first_turn_only)
                loss, now_right = loss_of(model, batch, phase.environment_weight)
                if not math.isfinite(loss.item()):
                    raise RuntimeError(f"the loss is {loss.item()} at step {done}: lower the learning rates")
                _step(model, optimizers, loss)
                done += 1
                right += (now_right - right) * max(0.05, 1 / done)
                bar.update(task, advance=1, description=f"{phase.name}: own tokens right {right:.3f}")
                if done % REPORT_EVERY == 0:
                    CONSOLE.print(f"{done}: {phase.name}: own tokens right {right:.3f}")
                if done % SAVE_EVERY == 0:
                    model.save_pretrained(folder)
    model.save_pretrained(folder)


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
    stream = DemonstrationStream(f"warm start/{arguments.seed}", load_tokenizer(str(arguments.out)))
    model = make_model(arguments.seed, tokenizer.pad_token_id, tokenizer.eos_token_id)
    CONSOLE.print(f"{model.num_parameters():,} parameters; tokenizer after {time.perf_counter() - started:.0f} s")
    phases = [scaled(phase, arguments.scale) for phase in PHASES]
    train(model, stream, phases, arguments.out)
    CONSOLE.print(f"trained after {time.perf_counter() - started:.0f} s")
    report(model.eval(), arguments.out, arguments.questions)


def scaled(phase: Phase, factor: float) -> Phase:
    """The phase with its number of steps multiplied, at least one."""
    return dataclasses.replace(phase, steps=max(1, round(phase.steps * factor)))


if __name__ == "__main__":
    main()
