"""Rules on what Gymnasium sees: spaces, flags, info, errors, specs."""

from __future__ import annotations

import functools
import json
import pickle
import warnings
from collections.abc import Iterator
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.envs.registration import EnvSpec
from gymnasium.utils.env_checker import check_env

from agent_envs.checker.driving import plain
from agent_envs.checker.report import Finding
from agent_envs.checker.subject import (
    LEVELS,
    Level,
    Subject,
    comparable,
    compare,
    ids_of,
    raised,
    recipe,
    shown,
    transcript,
    written_spec,
)
from agent_envs.envs import AgentEnv
from agent_envs.errors import EpisodeOverError, InvalidActionError

_VIEWS: tuple[tuple[Level, str], ...] = (("token", "full"), ("token", "delta"), ("turn", "full"))
_PLAIN_TYPES = (str, int, float, bool, type(None))
_BAD_ACTIONS: dict[Level, tuple[Any, ...]] = {
    "token": (-1, 2**31, 1.5, "a", None, [1]),
    "turn": ([], [-1], [1.5], [[1], [1, 2]], [2**31], None, {"ids": [1]}, b"bytes"),
}


def gymnasium_check(subject: Subject) -> Iterator[Finding]:
    """Gymnasium's own checker, warnings included."""
    for level, observation in _VIEWS:
        env = subject.make(level, observation)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            error = raised(functools.partial(check_env, skip_render_check=True), env)
        complaints = [str(warning.message) for warning in caught if "WARN: " in str(warning.message)]
        complaints += [f"{type(error).__name__}: {error}"] if error else []
        for complaint in complaints:
            how = f"check_env(env.unwrapped) with level={level!r}, observation={observation!r}"
            yield Finding("nothing for gymnasium.utils.env_checker.check_env to say", complaint, how)


def levels(subject: Subject) -> Iterator[Finding]:
    """A seed gives the same task at both levels; the same tokens give the same episode, rewards, flags and infos."""
    for seed in subject.seeds:
        by_token, by_turn = subject.make("token"), subject.make("turn")
        how = recipe("token and turn", seed, subject.turns(seed))
        one, other = by_token.reset(seed=seed)[1], by_turn.reset(seed=seed)[1]
        yield from compare("the same info of reset at both levels", one, other, how)
        turns = [by_token.core.encode_turn(turn) for turn in subject.turns(seed)]
        token_steps = [by_token.step(token) for turn in turns for token in turn if not by_token.core.done]
        turn_steps = [by_turn.step(turn) for turn in turns if not by_turn.core.done]
        ends = [comparable(step[1:]) for step in token_steps if step[4]]
        expected = "reward, flags and info of a turn's last token to be those of the turn"
        yield from compare(expected, ends, [comparable(step[1:]) for step in turn_steps], how)
        yield from compare("the same record at both levels", plain(by_token.episode), plain(by_turn.episode), how)
        idle = [step[1:4] for step in token_steps if not step[4] and step[1:4] != (0.0, False, False)]
        if idle:
            yield Finding("reward 0 and no flag on tokens that end no turn", shown(idle[0]), how)


def flags(subject: Subject) -> Iterator[Finding]:
    """Each flag is a bool that agrees with the reason; at most one is set, and only on the last step."""
    for level, seed, env, actions in [*_plays(subject), *_overlong(subject)]:
        env.reset(seed=seed)
        for count, action in enumerate(actions, start=1):
            step: tuple[Any, ...] = env.step(action)
            _, _, terminated, truncated, info = step
            how = recipe(level, seed, actions[:count])
            got = f"terminated={terminated!r}, truncated={truncated!r}, info={shown(info)}"
            if type(terminated) is not bool or type(truncated) is not bool:
                yield Finding("flags of type bool", got, how)
            reason = env.core.reason
            wanted = (reason is not None and reason.terminated, reason is not None and not reason.terminated)
            if (terminated, truncated) != wanted:
                yield Finding(f"(terminated, truncated) == {wanted}, as the reason is {reason}", got, how)
            if info and info.get("reason") != str(reason or ""):
                yield Finding(f'info["reason"] == {str(reason or "")!r}', got, how)
            if terminated or truncated or env.core.done:
                break


def plain_info(subject: Subject) -> Iterator[Finding]:
    """Observations lie in their space, rewards are finite floats, info is plain JSON of the same shape every turn."""
    for level, seed, env, actions in _plays(subject):
        observation, info = env.reset(seed=seed)
        steps = [(observation, 0.0, info), *(_seen(env, action) for action in actions if not env.core.done)]
        how = recipe(level, seed, actions)
        shapes = {json.dumps(_shape(info), sort_keys=True) for _, _, info in steps[1:] if info}
        if len(shapes) > 1:
            yield Finding("the same keys and types in info at the end of every turn", shown(sorted(shapes)), how)
        for number, (observation, reward, info) in enumerate(steps):
            what = f"{how}, step {number}"
            if not env.observation_space.contains(observation):
                yield Finding("an observation within its space", shown(observation), what)
            if type(reward) is not float or not np.isfinite(reward):
                yield Finding("a finite reward of type float", repr(reward), what)
            error = raised(functools.partial(json.dumps, allow_nan=False), info)
            if error is not None or not _is_plain(info):
                yield Finding("info of str, int, float, bool, None, list and dict, as JSON has it", shown(info), what)


def fresh_info(subject: Subject) -> Iterator[Finding]:
    """Whatever a caller does to what it was given, the environment goes on as if it had not."""
    for level, seed, env, actions in _plays(subject):
        undisturbed = transcript(subject.make(level), seed, actions)
        disturbed = [_spoiled(env.reset(seed=seed))]
        disturbed += [_spoiled(env.step(action)) for action in actions if not env.core.done]
        how = f"{recipe(level, seed, actions)}, changing every list, dict and array that comes back"
        yield from compare("the same steps whatever a caller does to earlier ones", undisturbed, disturbed, how)
        again = transcript(subject.make(level), seed, actions)
        yield from compare("other environments untouched by what a caller does", undisturbed, again, how)


def after_the_end(subject: Subject) -> Iterator[Finding]:
    """A step before the first reset or after the end raises EpisodeOverError; reset makes it good again."""
    for level in LEVELS:
        env, seed = subject.make(level), subject.seeds[0]
        actions = _actions(subject, level, seed)
        if env.core.done:  # an instance may have been handed over in the middle of an episode
            yield from _over(env, actions[0], f"level={level!r}, step before reset")
        first = transcript(env, seed, actions)
        while not env.core.done:
            env.core.feed([env.core.renderer.end_of_turn_id])
        yield from _over(env, actions[0], f"{recipe(level, seed, actions)}, to the end, then step once more")
        again = transcript(env, seed, actions)
        yield from compare("reset to begin the same episode anew", first, again, recipe(level, seed, actions))


def invalid_actions(subject: Subject) -> Iterator[Finding]:
    """An action outside the space raises InvalidActionError and changes nothing."""
    for level in LEVELS:
        env, seed = subject.make(level), subject.seeds[0]
        env.reset(seed=seed)
        before = plain(env.episode)
        for action in _BAD_ACTIONS[level]:
            how = recipe(level, seed, [action])
            error = raised(env.step, action)
            if not isinstance(error, InvalidActionError):
                yield Finding("InvalidActionError", repr(error) if error else "a step", how)
            yield from compare("an unchanged record after an invalid action", before, plain(env.episode), how)
            env.reset(seed=seed)


def spec(subject: Subject) -> Iterator[Finding]:
    """The spec survives JSON and pickle and makes the same environment; records survive pickle."""
    env, seed = subject.own_copy(), subject.seeds[0]
    expected = transcript(env, seed, [])
    copied = pickle.loads(pickle.dumps(env.episode))
    yield from compare("a record that survives pickle", plain(env.episode), plain(copied), "pickle env.episode")
    written = written_spec(subject)
    for how, again in (
        ("gym.make(EnvSpec.from_json(env.spec.to_json()))", EnvSpec.from_json(written.to_json())),
        ("gym.make(pickle.loads(pickle.dumps(env.spec)))", pickle.loads(pickle.dumps(written))),
    ):
        made = gym.make(again).unwrapped
        assert isinstance(made, AgentEnv), f"{how} made a {type(made).__name__}"
        yield from compare("a spec that makes the same environment", expected, transcript(made, seed, []), how)


def _plays(subject: Subject) -> Iterator[tuple[Level, int, AgentEnv[Any, Any], list[Any]]]:
    for level in LEVELS:
        for seed in subject.seeds:
            yield level, seed, subject.make(level), _actions(subject, level, seed)


def _overlong(subject: Subject) -> Iterator[tuple[Level, int, AgentEnv[Any, Any], list[Any]]]:
    """A turn that uses up its budget: an end that is no termination."""
    count = subject.env.core.budgets.max_turn_tokens
    for level in LEVELS:
        env = subject.make(level)
        ids = (env.core.tokenizer.encode_plain("a") * count)[:count]
        yield level, subject.seeds[0], env, ids if level == "token" else [ids]


def _actions(subject: Subject, level: Level, seed: int) -> list[Any]:
    turns = subject.turns(seed)
    return list(turns) if level == "turn" else ids_of(subject.env.core, turns)


def _seen(env: AgentEnv[Any, Any], action: Any) -> tuple[Any, Any, Any]:
    observation, reward, _, _, info = env.step(action)
    return observation, reward, info


def _over(env: AgentEnv[Any, Any], action: Any, how: str) -> Iterator[Finding]:
    error = raised(env.step, action)
    if not isinstance(error, EpisodeOverError):
        yield Finding("EpisodeOverError", repr(error) if error else "a step", how)


def _shape(value: Any) -> Any:
    """The keys of info with the types of their values; what lists and metrics hold may vary."""
    return {key: type(item).__name__ for key, item in value.items()}


def _is_plain(value: Any) -> bool:
    if type(value) is dict:
        return all(type(key) is str and _is_plain(item) for key, item in value.items())
    if type(value) is list:
        return all(_is_plain(item) for item in value)
    return type(value) in _PLAIN_TYPES


def _spoiled(step: tuple[Any, ...]) -> Any:
    """A step as values that compare, whose originals are then ruined."""
    kept = comparable(step)
    for value in step:
        _ruin(value)
    return kept


def _ruin(value: Any) -> None:
    if isinstance(value, np.ndarray) and value.flags.writeable and value.ndim:
        value[...] = 1
    elif isinstance(value, dict):
        for item in value.values():
            _ruin(item)
        value.clear()
    elif isinstance(value, list):
        for item in value:
            _ruin(item)
        value.clear()
