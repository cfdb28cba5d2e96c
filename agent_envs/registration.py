"""The environments' ids, and how one is made."""

from __future__ import annotations

import dataclasses
import importlib
from typing import Any

import gymnasium as gym

from agent_envs.budgets import Budgets
from agent_envs.context_rules import make_rule
from agent_envs.envs import AgentEnv, TokenEnv, TurnEnv
from agent_envs.episode import EpisodeCore
from agent_envs.errors import ConfigError
from agent_envs.formats import FORMATS
from agent_envs.options import EpisodeOptions, VectorOptions, read_options
from agent_envs.registry import Registry
from agent_envs.tasks.catalogue import TASKS, TaskEntry
from agent_envs.tokenizers import load_tokenizer
from agent_envs.vector.env import AgentVectorEnv
from agent_envs.vector.workers import remote_envs


def make_env(task: str, render_mode: str | None = None, **options: Any) -> AgentEnv[Any, Any]:
    """Makes an environment; ``gym.make`` calls this.

    Args:
        task: a name of ``TASKS``.
        render_mode: None or "ansi".
        options: the fields of ``EpisodeOptions`` and of the task's own options.

    Raises:
        ConfigError: an option is unknown, of the wrong type, out of range, or contradicts another.
        DataError: the data cannot be read.
        TokenizerError: the tokenizer cannot be loaded, or cannot serve.
    """
    entry = TASKS.get(task)
    common, own = read_options((EpisodeOptions, entry.options), {**entry.defaults, **options}, entry.env_id)
    core = make_core(task, common, own)
    env: AgentEnv[Any, Any]
    env = TurnEnv(core, render_mode) if common.level == "turn" else TokenEnv(core, common.observation, render_mode)
    env.made_with = {"task": task, "render_mode": render_mode, **options}
    return env


def make_vector_env(task: str, num_envs: int = 1, render_mode: str | None = None, **options: Any) -> AgentVectorEnv:
    """Makes environments side by side; ``gym.make_vec`` calls this.

    Args:
        task: a name of ``TASKS``.
        num_envs: how many, >= 1.
        render_mode: None or "ansi".
        options: the fields of ``VectorOptions``, and as for ``make_env``.

    Raises:
        ConfigError: as for ``make_env``, or a number out of range.
    """
    known = {field.name for field in dataclasses.fields(VectorOptions)}
    given = {name: options.pop(name) for name in known.intersection(options)}
    (vector,) = read_options((VectorOptions,), given, TASKS.get(task).env_id)
    if num_envs < 1:
        raise ConfigError(f"num_envs is a whole number >= 1, not {num_envs!r}")
    first = make_env(task, render_mode, **options)
    envs: list[Any]
    if vector.workers:
        envs = list(remote_envs(first, num_envs, vector.workers, vector.deadline_s, vector.max_threads))
    else:
        envs = [first, *(make_env(task, render_mode, **options) for _ in range(num_envs - 1))]
    # Workers keep the deadline themselves; the little more here is for a worker that keeps none.
    deadline_s = vector.deadline_s * 1.5 + 5.0 if vector.workers else vector.deadline_s
    return AgentVectorEnv(envs, vector.autoreset_mode, deadline_s, None if vector.workers else vector.max_threads)


def make_core(task: str, common: EpisodeOptions, own: Any) -> EpisodeCore[Any]:
    """An episode core without Gymnasium, for loops of one's own."""
    entry = TASKS.get(task)
    budgets = Budgets(common.max_turns, common.max_turn_tokens, common.max_observation_tokens, common.max_context)
    tool_format, tokenizer = FORMATS.get(common.tool_format), load_tokenizer(common.tokenizer)
    rule = make_rule(common.context_rule, common.context_turns, common.context_tokens, common.context_function)
    return EpisodeCore(entry.env_id, entry.load(own), tokenizer, tool_format, budgets, common.ask_final_answer, rule)


def require_id(env_id: str) -> None:
    """Makes sure that ``gym.make`` knows an id; of ``my_package:My/Env-v0`` it first imports ``my_package``.

    Raises:
        ConfigError: the module cannot be imported.
        UnknownNameError: there is no such id; the message lists those of this package.
    """
    module, _, name = env_id.rpartition(":")
    try:
        if module:
            importlib.import_module(module)
    except ImportError as error:
        raise ConfigError(f"cannot import {module!r}, which {env_id!r} names ({error})") from error
    if name not in gym.registry:
        known: Registry[TaskEntry] = Registry("environment")
        for task in TASKS:
            known.register(TASKS.get(task).env_id, TASKS.get(task))
        known.get(name)  # raises, with a hint


def register_all() -> None:
    """Registers every task's id with Gymnasium; ids that are there already are left alone."""
    for name in TASKS:
        env_id = TASKS.get(name).env_id
        if env_id not in gym.registry:
            gym.register(
                env_id,
                entry_point="agent_envs.registration:make_env",
                vector_entry_point="agent_envs.registration:make_vector_env",
                kwargs={"task": name},
            )
