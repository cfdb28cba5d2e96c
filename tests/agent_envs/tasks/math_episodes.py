"""Driving the environments of problems, a turn at a time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium as gym

import agent_envs  # noqa: F401 - registers the ids
from agent_envs.envs import TurnEnv
from agent_envs.tasks.base import OracleTurn
from agent_envs.types import Episode, ToolCall


def make(env_id: str, **options: Any) -> TurnEnv:
    """An environment at the turn level, unwrapped."""
    env = gym.make(env_id, level="turn", **options).unwrapped
    assert isinstance(env, TurnEnv)
    return env


def answer(env: TurnEnv, text: str) -> str:
    """A turn that answers, in the environment's format."""
    return env.core.write_turn(OracleTurn(answer=text))


def call(env: TurnEnv, name: str, **arguments: str) -> str:
    """A turn that calls a tool, in the environment's format."""
    return env.core.write_turn(OracleTurn(calls=(ToolCall(name, arguments),)))


def play(env: TurnEnv, task_id: str, *turns: str) -> Episode:
    """The record of an episode of these turns."""
    env.reset(options={"task_id": task_id})
    for turn in turns:
        env.step(turn)
    return env.episode


def play_oracle(env: TurnEnv, task_id: str) -> Episode:
    """The record of the oracle's episode."""
    env.reset(options={"task_id": task_id})
    for turn in env.task.oracle(env.core.item):
        env.step(env.core.write_turn(turn))
    return env.episode


def reachable(root: object, wanted: Callable[[object], bool]) -> list[object]:
    """Every object of that kind that can be got at from a root: by attributes, closures, containers and arguments."""
    seen: dict[int, object] = {}
    pending, found = [root], []
    while pending:
        one = pending.pop()
        if id(one) in seen or isinstance(one, type | str | bytes | int | float):
            if isinstance(one, str) and wanted(one):
                found.append(one)
            continue
        seen[id(one)] = one
        if wanted(one):
            found.append(one)
        pending += _inside(one)
    return found


def _inside(one: object) -> list[object]:
    inside: list[object] = list(getattr(one, "__dict__", {}).values())
    inside += [getattr(one, name, None) for kind in type(one).__mro__ for name in getattr(kind, "__slots__", ())]
    for name in ("__closure__", "__defaults__", "__kwdefaults__", "__self__", "__func__", "__wrapped__", "args"):
        inside.append(getattr(one, name, None))
    if type(one).__name__ == "cell":
        inside.append(getattr(one, "cell_contents", None))
    if isinstance(one, dict):
        inside += [*one.keys(), *one.values()]
    elif isinstance(one, list | tuple | set | frozenset):
        inside += list(one)
    return inside
