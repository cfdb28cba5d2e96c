"""Tasks by name. Adding one is a file here and an entry below; importing agent_envs registers its id."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from agent_envs.registry import Registry
from agent_envs.tasks.base import Task
from agent_envs.tasks.hotpotqa import HotpotQaOptions, load_hotpotqa


@dataclass(frozen=True, slots=True)
class TaskEntry:
    """A task that environments can be made of: its id, a line on it, its options and how to load it."""

    env_id: str
    summary: str
    options: type[Any]
    load: Callable[[Any], Task[Any]]


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
