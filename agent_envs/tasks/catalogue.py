"""Tasks by name. Adding one is a file here and an entry below; importing agent_envs registers its id."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from agent_envs.registry import Registry
from agent_envs.tasks.base import Task
from agent_envs.tasks.hotpotqa import HotpotQaOptions, load_hotpotqa


@dataclass(frozen=True, slots=True)
class TaskEntry:
    """A task that environments can be made of.

    Attributes:
        env_id: the id it is registered under.
        summary: a line on it.
        options: a dataclass of its own keyword arguments, all with defaults.
        load: makes the task of them; loaded data is cached and shared.
        defaults: fields of ``EpisodeOptions`` that this task sets otherwise, such as its usual tool format.
    """

    env_id: str
    summary: str
    options: type[Any]
    load: Callable[[Any], Task[Any]]
    defaults: Mapping[str, Any] = field(default_factory=dict)


TASKS: Registry[TaskEntry] = Registry("task")
TASKS.register(
    "hotpotqa",
    TaskEntry(
        "AgentR1/HotpotQA-v0",
        "Two-hop questions over an encyclopaedia, with a search tool (HotpotQA, or an embedded made-up world)",
        HotpotQaOptions,
        load_hotpotqa,
    ),
)
