"""What is being checked: an environment, how more of it are made, and what to play on it."""

from __future__ import annotations

import copy
import dataclasses
import json
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from gymnasium.envs.registration import EnvSpec

from agent_envs.checker.report import Finding
from agent_envs.context_rules import ContextRule
from agent_envs.envs import AgentEnv, TokenEnv, TurnEnv
from agent_envs.episode import EpisodeCore
from agent_envs.errors import ConfigError
from agent_envs.reference_policies import example_call, malformed_turns

Level = Literal["token", "turn"]
LEVELS: tuple[Level, ...] = ("token", "turn")
Action = int | str | list[int]

_OUR_ENTRY_POINT = "agent_envs.registration:make_env"
_MAX_SHOWN = 300  # characters of a value in a finding
_ABSENT = "(no such key)"


class SkipRuleError(Exception):
    """Raised by a rule that cannot be tried on this environment; the message says why."""


@dataclass(slots=True)
class Subject:
    """An environment under examination. Nothing here steps ``env`` itself: rules play on copies.

    Attributes:
        name: for the report.
        env: the unwrapped environment as it was given or made.
        spec: how another process would make it, or None.
        seeds: the episodes that rules look at.
    """

    name: str
    env: AgentEnv[Any, Any]
    spec: EnvSpec | None
    seeds: tuple[int, ...]
    _made: list[AgentEnv[Any, Any]] = field(default_factory=list)

    def make(self, level: Level, observation: str = "full") -> AgentEnv[Any, Any]:
        """A fresh environment of a level: a copy of the given one, or the same episode core behind the other face."""
        env = self._make(level, observation)
        self._made.append(env)
        return env

    def own_copy(self) -> AgentEnv[Any, Any]:
        """A copy of the given environment at its own level."""
        env = copy.deepcopy(self.env)
        self._made.append(env)
        return env

    def core(self, seed: int, rule: ContextRule | None = None, **budgets: int) -> EpisodeCore[Any]:
        """A core at the start of the seed's episode, with another context rule or some budgets set otherwise."""
        env = self.own_copy()
        _, info = env.reset(seed=seed)
        core = env.core
        if rule is not None or budgets:
            core.context_rule = rule or core.context_rule
            core.budgets = dataclasses.replace(core.budgets, **budgets)
            core.reset(core.task.index_of(info["task_id"]), seed)
        return core

    def turns(self, seed: int) -> list[str]:
        """An episode worth playing: the solution, on some seeds after a broken call and idle words."""
        core = self.core(seed)
        detours = [malformed_turns(core)[seed % 3], "Let me think: é 漢 ..."] if seed % 2 else []
        return [*detours, *(core.write_turn(turn) for turn in core.task.oracle(core.item))]

    def texts(self, seed: int) -> list[str]:
        """Pieces of turns for random streams: good calls and broken ones, tags, answers, words."""
        core = self.core(seed)
        tags = [*core.format.tags, *(tag[: len(tag) // 2] for tag in core.format.closing_tags)]
        calls = [core.format.write_calls((example_call(tool),)) for tool in core.tools[:3]]
        return [*self.turns(seed), *malformed_turns(core), *tags, *calls, " plain words, é 漢 "]

    def close(self) -> None:
        """Closes every environment made so far."""
        while self._made:
            self._made.pop().close()

    def _make(self, level: Level, observation: str) -> AgentEnv[Any, Any]:
        own_observation = "delta" if not isinstance(self.env.observation_space, spaces.Dict) else "full"
        if level == level_of(self.env) and (level == "turn" or observation == own_observation):
            return copy.deepcopy(self.env)
        if self.spec is not None and self.spec.entry_point == _OUR_ENTRY_POINT:
            made = gym.make(self.spec, **{**self.spec.kwargs, "level": level, "observation": observation})
            assert isinstance(made.unwrapped, AgentEnv)
            return made.unwrapped
        core = self.env.core.fork()
        return TurnEnv(core) if level == "turn" else TokenEnv(core, observation)


def subject_of(env_or_id: gym.Env[Any, Any] | str, options: Mapping[str, Any], seeds: Iterable[int]) -> Subject:
    """Makes the environment, or takes it as it is.

    Raises:
        ConfigError: it doesn't show its episode core, so that only Gymnasium's own checks could be made.
    """
    if not isinstance(env_or_id, str) and options:
        raise ConfigError("options are for ids; an environment that is made already has its own")
    env = gym.make(env_or_id, **options) if isinstance(env_or_id, str) else env_or_id
    inner = env.unwrapped if isinstance(env, gym.Env) else env
    if not isinstance(inner, AgentEnv):
        raise ConfigError(
            f"check_agent_env examines agent_envs.AgentEnv environments, which show their `core` and `episode`, not "
            f"{type(inner).__name__}; gymnasium.utils.env_checker.check_env is the check for others"
        )
    name = env_or_id if isinstance(env_or_id, str) else inner.core.env_id
    return Subject(name, inner, env.spec, tuple(seeds))


def level_of(env: AgentEnv[Any, Any]) -> Level:
    """The level of an environment, by its actions."""
    return "token" if isinstance(env.action_space, spaces.Discrete) else "turn"


def ids_of(core: EpisodeCore[Any], turns: Sequence[str]) -> list[int]:
    """The tokens of some turns, one after another."""
    return [token_id for turn in turns for token_id in core.encode_turn(turn)]


def play_texts(core: EpisodeCore[Any], turns: Sequence[str]) -> None:
    """Plays turns until they or the episode end."""
    for text in turns:
        if not core.done:
            core.feed(core.encode_turn(text))


def transcript(env: AgentEnv[Any, Any], seed: int, actions: Sequence[Action]) -> list[Any]:
    """What the environment gave, from reset to the end of the episode or of the actions, as values that compare."""
    steps: list[Any] = [comparable(env.reset(seed=seed))]
    return steps + continued(env, actions)


def continued(env: AgentEnv[Any, Any], actions: Sequence[Action]) -> list[Any]:
    """What further actions give, until the episode ends."""
    steps: list[Any] = []
    for action in actions:
        if env.core.done:
            break
        steps.append(comparable(env.step(action)))
    return steps


def comparable(value: Any) -> Any:
    """Plain data as it is, arrays by a checksum of their bytes."""
    if isinstance(value, np.ndarray):
        return f"{value.dtype} {value.shape} {zlib.crc32(value.tobytes()):08x}"
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, Mapping):
        return {key: comparable(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [comparable(item) for item in value]
    return value


def difference(one: Any, other: Any, where: str = "") -> tuple[str, Any, Any] | None:
    """The first place where two values differ, with what stands there; None where they are equal."""
    if one == other:
        return None
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        for key in [*one, *(key for key in other if key not in one)]:
            found = difference(one.get(key, _ABSENT), other.get(key, _ABSENT), f"{where}.{key}")
            if found:
                return found
        return None
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        for index, (left, right) in enumerate(zip(one, other, strict=False)):
            found = difference(left, right, f"{where}[{index}]")
            if found:
                return found
        return None if len(one) == len(other) else (f"the length of {where or 'it'}", len(one), len(other))
    return where, one, other


def compare(expectation: str, one: Any, other: Any, reproduce: str) -> list[Finding]:
    """A finding where two values differ."""
    found = difference(one, other)
    if found is None:
        return []
    where, left, right = found
    return [Finding(expectation, f"{shown(left)} and {shown(right)} at {where or 'the top'}", reproduce)]


def shown(value: Any) -> str:
    """A value's text, short enough for a message."""
    text = repr(value)
    return text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}... ({len(text)} characters)"


def recipe(level: str, seed: int, actions: Sequence[Any]) -> str:
    """How to see something again."""
    return f"level={level!r}, reset(seed={seed}), then {shown(list(actions))}"


def raised(function: Callable[..., object], *arguments: Any) -> Exception | None:
    """What a call raises, or None."""
    try:
        function(*arguments)
    except Exception as error:
        return error
    return None


def written_spec(subject: Subject) -> EnvSpec:
    """The environment's spec, which can be written as JSON.

    Raises:
        SkipRuleError: there is none, or it cannot.
    """
    if subject.spec is None:
        raise SkipRuleError("the environment has no spec: gym.make gives it one")
    if not isinstance(subject.spec.entry_point, str):
        raise SkipRuleError("the entry point is a function: register it as 'module:name' and a spec can be written")
    try:
        json.dumps(subject.spec.kwargs)
    except TypeError as error:
        raise SkipRuleError(
            f"an option holds what JSON cannot write ({error}): give it by name, as factory= does for ToolUse"
        ) from error
    return subject.spec
