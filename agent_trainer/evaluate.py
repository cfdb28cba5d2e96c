"""Plays a policy on questions and says how well it does, with intervals.

Greedy by default. Which questions: the first n in an order that a hash of the seed and the question's id gives, so that
the same call always plays the same ones, a smaller n plays some of a larger n's, and the order of a file means nothing.
Episodes whose environment or infrastructure failed say nothing of the policy: they are counted, written and left out of
every mean.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import gymnasium as gym
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from agent_envs.episode import EpisodeCore
from agent_envs.errors import ConfigError
from agent_envs.types import Episode
from agent_trainer.records import JsonLinesWriter, episode_to_json, plain
from agent_trainer.rollout import EpisodeSpec, Rollout, RolloutEngine, RolloutStats
from agent_trainer.sampler import SAMPLERS, Sampler, SamplingParams
from agent_trainer.statistics import Estimate, bootstrap, share

if TYPE_CHECKING:
    from torch import nn


_SHARES = frozenset({"em", "answered"})  # metrics of the tasks that are 0 or 1 in every episode


@dataclass(frozen=True, slots=True)
class EvaluationSettings:
    """How to evaluate.

    Attributes:
        sampling: of a model given as such; a sampler brings its own. Temperature 0 is greedy.
        seed: chooses the questions, and the random streams where the sampling is not greedy.
        max_in_flight: episodes at once, >= 1.
        num_threads: tool calls at once, >= 1.
        records: None, or the JSON Lines file to write, one line per question as it ends.
        progress: draw a bar on standard error.
    """

    sampling: SamplingParams = field(default_factory=lambda: SamplingParams(temperature=0.0))
    seed: int = 0
    max_in_flight: int = 64
    num_threads: int = 64
    records: Path | None = None
    progress: bool = True


@dataclass(frozen=True, slots=True)
class Evaluation:
    """How well a policy did. Shares and means come with 95 % intervals: Wilson's for yes/no values, else a bootstrap.

    Attributes:
        env_id: the environment.
        env_options: its keyword arguments.
        questions: that were played to an end and count.
        failed: episodes left out because the environment or its infrastructure failed.
        metrics: every metric of the task by name, such as em, f1, turns, tool_calls.
        malformed_share: of the calls that the policy wrote, those that could not be run because of how it wrote them.
        truncated_share: of the episodes, those that a budget ended.
        stats: where the time went.
    """

    env_id: str
    env_options: Mapping[str, Any]
    questions: int
    failed: int
    metrics: Mapping[str, Estimate]
    malformed_share: Estimate
    truncated_share: Estimate
    stats: RolloutStats

    @property
    def em(self) -> Estimate:
        """The share of exact matches.

        Raises:
            KeyError: the task has no such metric.
        """
        return self.metrics["em"]

    @property
    def f1(self) -> Estimate:
        """The mean F1.

        Raises:
            KeyError: the task has no such metric.
        """
        return self.metrics["f1"]

    @property
    def seconds(self) -> float:
        """Wall clock of the episodes."""
        return self.stats.seconds

    def to_json(self) -> dict[str, Any]:
        """The numbers as plain data for strict JSON; estimates as ``[mean, low, high]``."""
        estimates = {**self.metrics, "malformed_share": self.malformed_share, "truncated_share": self.truncated_share}
        summary = {
            "env_id": self.env_id,
            "env_options": dict(self.env_options),
            "questions": self.questions,
            "failed": self.failed,
            "estimates": {name: [value.mean, value.low, value.high] for name, value in estimates.items()},
            "turns": self.stats.turns,
            "generated_tokens": self.stats.generated_tokens,
            "seconds": self.stats.seconds,
            "tokens_per_s": self.stats.tokens_per_s,
        }
        result: dict[str, Any] = plain(summary)
        return result


def evaluate(
    policy: nn.Module | Sampler,
    env_id: str,
    env_options: Mapping[str, Any] | None = None,
    n: int | None = None,
    settings: EvaluationSettings | None = None,
) -> Evaluation:
    """Plays a policy on n questions of a split.

    Args:
        policy: a transformers causal language model, or any sampler.
        env_id: such as ``AgentR1/HotpotQA-v0``.
        env_options: keyword arguments of the environment: the split, the model's tokenizer, budgets.
        n: how many questions; None plays all.
        settings: see ``EvaluationSettings``.

    Raises:
        ConfigError: n is below 1 or more than the split holds, or an option is wrong.
        RuntimeError: every single episode failed; the message holds the first error.
    """
    settings = settings or EvaluationSettings()
    options = dict(env_options or {})
    first = gym.make(env_id, **options)
    core = first.unwrapped.core  # type: ignore[attr-defined]
    specs = choose(core.task.task_ids(), n, settings.seed)
    spare = [first]
    engine = RolloutEngine(
        lambda: spare.pop() if spare else gym.make(env_id, **options),
        _sampler_of(policy, settings.sampling, core),
        settings.max_in_flight,
        settings.num_threads,
    )
    with contextlib.closing(engine), _records(settings.records) as write, _bar(settings.progress, len(specs)) as show:

        def note(rollout: Rollout) -> None:
            write(_line(rollout, core.task))
            show(rollout)

        rollouts = engine.run(specs, progress=note)
    return summarise(env_id, options, rollouts, engine.stats)


def choose(task_ids: Sequence[str], n: int | None, seed: int) -> list[EpisodeSpec]:
    """The questions to play, each a group of its own.

    Args:
        task_ids: of the split.
        n: how many; None for all.
        seed: of the order.

    Raises:
        ConfigError: n is below 1 or more than there are.
    """
    if n is not None and not 1 <= n <= len(task_ids):
        raise ConfigError(f"n is the number of questions to play, 1 to the {len(task_ids)} of this split, not {n}")
    hashes = {task_id: hashlib.blake2b(f"{seed}/{task_id}".encode(), digest_size=8).digest() for task_id in task_ids}
    order = sorted(task_ids, key=lambda task_id: (hashes[task_id], task_id))[:n]
    seeds = [int.from_bytes(hashes[task_id], "little") for task_id in order]
    return [EpisodeSpec(task_id, seed, sampling_seed=seeds[i], group=i) for i, task_id in enumerate(order)]


def summarise(
    env_id: str, env_options: Mapping[str, Any], rollouts: Sequence[Rollout], stats: RolloutStats
) -> Evaluation:
    """The numbers of an evaluation from its rollouts.

    Raises:
        RuntimeError: none of them counts.
    """
    episodes = [rollout.episode for rollout in rollouts if rollout.episode is not None and not rollout.failed]
    if not episodes:
        errors = [rollout.error or _failure(rollout.episode) for rollout in rollouts]
        raise RuntimeError(
            f"all {len(rollouts)} episodes failed; the first: {errors[0] if errors else 'none was played'}"
        )
    malformed = [sum(event.kind.is_malformed for event in episode.events) for episode in episodes]
    written = [sum(len(turn.calls) for turn in episode.turns) for episode in episodes]
    names = [name for name in episodes[0].metrics if all(name in episode.metrics for episode in episodes)]
    return Evaluation(
        env_id=env_id,
        env_options=dict(env_options),
        questions=len(episodes),
        failed=len(rollouts) - len(episodes),
        metrics={name: _interval(name, [episode.metrics[name] for episode in episodes]) for name in names},
        malformed_share=bootstrap(malformed, written),
        truncated_share=share([float(episode.truncated) for episode in episodes]),
        stats=stats,
    )


def _interval(name: str, values: Sequence[float]) -> Estimate:
    """Wilson's interval for a score that is yes or no by its meaning; a count that happens to be 1 gets a bootstrap."""
    return share(values) if name in _SHARES else bootstrap(values)


def _failure(episode: Episode | None) -> str:
    """Why an episode that has a record failed."""
    return (
        "no record" if episode is None else f"{episode.reason}: {episode.events[-1].detail if episode.events else ''}"
    )


def _sampler_of(policy: nn.Module | Sampler, params: SamplingParams, core: EpisodeCore[Any]) -> Sampler:
    """The policy itself where it is a sampler, else a sampler over the model."""
    if isinstance(policy, Sampler):
        return policy
    return SAMPLERS.get("hf")(policy, params, core)


def _line(rollout: Rollout, task: Any) -> dict[str, Any]:
    """One question's line: what was asked, what a policy that knows would answer, and the episode or the error."""
    item = task.item(task.index_of(rollout.spec.task_id))
    head = {
        "task_id": rollout.spec.task_id,
        "question": task.user_prompt(item),
        "gold": task.oracle(item)[-1].answer,
        "error": rollout.error,
    }
    return head if rollout.episode is None else {**head, **episode_to_json(rollout.episode)}


@contextlib.contextmanager
def _records(path: Path | None) -> Iterator[Callable[[Mapping[str, Any]], None]]:
    """A function that writes a question's line, where a file is wanted."""
    if path is None:
        yield lambda _record: None
        return
    with JsonLinesWriter(path) as writer:
        yield writer.write


@contextlib.contextmanager
def _bar(wanted: bool, total: int) -> Iterator[Callable[[Rollout], None]]:
    """A function that moves a progress bar on by one question and shows the mean of the task's first score so far."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), disable=not wanted) as progress:
        bar = progress.add_task("evaluating", total=total)
        scores: list[float] = []

        def show(rollout: Rollout) -> None:
            if rollout.episode is not None and not rollout.failed:
                metrics = rollout.episode.metrics
                scores.append(metrics.get("em", metrics.get("reward", rollout.episode.total_reward)))
            mean = sum(scores) / len(scores) if scores else 0.0
            progress.update(bar, advance=1, description=f"evaluating, score {mean:.3f}")

        yield show


def write_summary(evaluation: Evaluation, path: Path) -> None:
    """Writes the numbers as a JSON file; its folder is made."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(evaluation.to_json(), indent=2, allow_nan=False) + "\n", encoding="utf-8")
