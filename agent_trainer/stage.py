"""Where episodes are played: environments of one kind, their tasks, and which episodes make a group."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import gymnasium as gym

import agent_envs  # noqa: F401 - registers the ids
from agent_envs.episode import EpisodeCore
from agent_envs.errors import ConfigError
from agent_envs.registration import require_id
from agent_trainer.rollout import EpisodeSpec

if TYPE_CHECKING:
    from agent_trainer.config import AgentConfig

MakeEnv = Callable[[], "gym.Env[Any, Any]"]


@dataclass(frozen=True, slots=True)
class Stage:
    """Environments of one kind.

    Attributes:
        make_env: gives a new environment.
        core: an episode core of that kind, to look at its task, tokenizer and budgets; nobody plays it.
    """

    make_env: MakeEnv
    core: EpisodeCore[Any]

    @property
    def task_ids(self) -> tuple[str, ...]:
        """What can be played, in the data's order."""
        return tuple(self.core.task.task_ids())


def open_stage(env: str | MakeEnv, options: dict[str, Any]) -> Stage:
    """Makes one environment to look at its tasks and tokenizer.

    Args:
        env: an id that Gymnasium knows, or a function that makes the environment.
        options: keyword arguments of the environment; they belong to an id only.

    Raises:
        ConfigError: the id is unknown, or options came with a function.
    """
    if callable(env):
        if options:
            raise ConfigError(f"env is a function, so it takes no options, but {sorted(options)} are set")
        make_env = env
    else:
        require_id(env)
        make_env = functools.partial(gym.make, env, disable_env_checker=True, **options)
    first = make_env()
    stage = Stage(make_env, first.unwrapped.core)  # type: ignore[attr-defined]
    first.close()
    return stage


def open_stages(args: AgentConfig, env: str | MakeEnv | None, tokenizer: str) -> tuple[Stage, Stage | None]:
    """The environments to train on and to evaluate with.

    Raises:
        ConfigError: an option is unknown to the environment, or there are too few tasks for one batch.
    """
    if callable(env):
        stage = open_stage(env, args.environment_options)
        eval_stage = stage if args.eval_tasks else None
    else:
        env_id = args.env_id if env is None else env
        stage = open_stage(env_id, {"tokenizer": tokenizer, **args.environment_options})
        eval_options = {"tokenizer": tokenizer, **args.eval_environment_options}
        eval_stage = open_stage(env_id, eval_options) if args.eval_tasks else None
    prompts = args.generation_batch_size // args.num_generations
    if len(stage.task_ids) < prompts:
        raise ConfigError(
            f"the environment has {len(stage.task_ids)} tasks, fewer than the {prompts} prompts of one batch"
        )
    return stage, eval_stage


def group_specs(task_ids: Sequence[str], group_size: int, first_index: int, key: Sequence[object]) -> list[EpisodeSpec]:
    """What to play for one process's share of a batch: members of a group share the task and the environment's seed.

    Args:
        task_ids: one per episode, the members of a group side by side.
        group_size: members of one group.
        first_index: the number of this process's first episode within the batch of all processes.
        key: what tells this batch from all others, such as the run's seed and the step.

    Raises:
        ValueError: the members of a group have different tasks.
    """
    specs = []
    for offset, task_id in enumerate(task_ids):
        index = first_index + offset
        group = index // group_size
        if offset and (index - 1) // group_size == group and task_ids[offset - 1] != task_id:
            raise ValueError(f"group {group} mixes the tasks {task_ids[offset - 1]!r} and {task_id!r}")
        env_seed = stable_seed("environment", *key, group)
        specs.append(EpisodeSpec(task_id, env_seed, stable_seed("policy", *key, index), group))
    return specs


def one_per_group(specs: Sequence[EpisodeSpec]) -> list[EpisodeSpec]:
    """The first member of each group: a greedy policy would play all of them alike."""
    first: dict[int, EpisodeSpec] = {}
    for spec in specs:
        first.setdefault(spec.group, spec)
    return list(first.values())


def stable_seed(*parts: object) -> int:
    """A number in [0, 2^48) from a hash, the same in every process, whose neighbours share nothing."""
    digest = hashlib.blake2b("/".join(str(part) for part in parts).encode(), digest_size=6, person=b"agentr1/stage")
    return int.from_bytes(digest.digest(), "little")
