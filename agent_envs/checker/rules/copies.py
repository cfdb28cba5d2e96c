"""Rules on repetition and copies: the same seed, another process, deepcopy, forks, saved states."""

from __future__ import annotations

import copy
import json
import os
import pickle
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

from agent_envs.checker.driving import plain
from agent_envs.checker.replay import digest
from agent_envs.checker.report import Finding
from agent_envs.checker.subject import (
    LEVELS,
    SkipRuleError,
    Subject,
    compare,
    continued,
    ids_of,
    play_texts,
    recipe,
    transcript,
    written_spec,
)
from agent_envs.reference_policies import WRONG_ANSWER
from agent_envs.tasks.base import OracleTurn

_TIMEOUT_S = 300.0


def determinism(subject: Subject) -> Iterator[Finding]:
    """The same seed and actions give the same observations, rewards and infos, whatever was played before."""
    for level in LEVELS:
        first, second = subject.make(level), subject.make(level)
        for seed in subject.seeds:
            turns = subject.turns(seed)
            actions: list[Any] = list(turns) if level == "turn" else ids_of(subject.env.core, turns)
            transcript(second, seed + 1, actions[:3])
            how = f"{recipe(level, seed, actions)}, in two environments, one of which has played seed {seed + 1}"
            one, other = transcript(first, seed, actions), transcript(second, seed, actions)
            yield from compare("the same seed to give the same episode, with no clock or id in it", one, other, how)


def processes(subject: Subject) -> Iterator[Finding]:
    """Another process, with another hash seed, plays the same episodes."""
    written_spec(subject)
    plays = [(seed, subject.turns(seed)) for seed in subject.seeds]
    expected = [digest(transcript(subject.make("turn"), seed, turns)) for seed, turns in plays]
    order = json.dumps({"spec": _turn_spec(subject), "plays": plays, "path": sys.path})
    done = subprocess.run(
        [sys.executable, "-m", "agent_envs.checker.replay"],
        input=order,
        capture_output=True,
        text=True,
        timeout=_TIMEOUT_S,
        env=os.environ | {"PYTHONHASHSEED": "12345", "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    if done.returncode:
        got = f"exit code {done.returncode}: {done.stderr.strip()[-500:]}"
        yield Finding("an environment that another process can make from the spec", got, "EnvSpec.from_json in it")
        return
    for (seed, turns), here, there in zip(plays, expected, json.loads(done.stdout), strict=True):
        how = f"{recipe('turn', seed, turns)}, in a process with PYTHONHASHSEED=12345"
        yield from compare("the same episode in another process with another hash seed", here, there, how)


def deepcopy(subject: Subject) -> Iterator[Finding]:
    """A deep copy in the middle of an episode goes on as the original does, and neither touches the other."""
    for level in LEVELS:
        for seed in subject.seeds:
            turns = subject.turns(seed)
            actions: list[Any] = list(turns) if level == "turn" else ids_of(subject.env.core, turns)
            middle = (len(actions) + 1) // 2
            env, undisturbed = subject.make(level), subject.make(level)
            whole = transcript(undisturbed, seed, actions)
            head = transcript(env, seed, actions[:middle])
            twin = copy.deepcopy(env)
            how = f"{recipe(level, seed, actions)}, copied after {middle} actions"
            yield from compare("a deep copy that goes on alike", whole, head + continued(twin, actions[middle:]), how)
            yield from compare(
                "an original that its copy's steps leave alone", whole, head + continued(env, actions[middle:]), how
            )
            yield from compare("equal records", plain(env.episode), plain(twin.episode), how)
            twin.close()


def pickles(subject: Subject) -> Iterator[Finding]:
    """An environment that comes out of pickle in the middle of an episode goes on as the original does."""
    refusals = []
    for level in LEVELS:
        seed = subject.seeds[0]
        turns, env = subject.turns(seed), subject.make(level)
        actions: list[Any] = list(turns) if level == "turn" else ids_of(subject.env.core, turns)
        middle = (len(actions) + 1) // 2
        transcript(env, seed, actions[:middle])
        try:
            sent = pickle.dumps(env)
        except (TypeError, AttributeError, pickle.PicklingError) as error:
            refusals.append(str(error))
            continue
        twin = pickle.loads(sent)
        how = f"{recipe(level, seed, actions)}, pickled after {middle} actions"
        yield from compare("equal records on both sides", plain(env.episode), plain(twin.episode), how)
        expected, got = continued(env, actions[middle:]), continued(twin, actions[middle:])
        yield from compare("an environment that goes on alike", expected, got, how)
        twin.close()
    if len(refusals) == len(LEVELS):
        raise SkipRuleError(f"pickle refuses the environment: {refusals[0]}")


def fork(subject: Subject) -> Iterator[Finding]:
    """A forked core goes its own way, and the original can be put back to where the fork was taken."""
    for seed in subject.seeds:
        turns, core = subject.turns(seed), subject.core(seed)
        how = f"{recipe('turn', seed, turns)}, forked after the first turn"
        core.feed(core.encode_turn(turns[0]))
        if core.done:
            continue
        standing, twin, saved = plain(core.snapshot()), core.fork(), core.fork()
        twin.feed(twin.encode_turn(twin.write_turn(OracleTurn(answer=WRONG_ANSWER))))
        yield from compare("an original that its fork leaves alone", standing, plain(core.snapshot()), how)
        ends = []
        for _ in range(2):
            play_texts(core, turns[1:])
            ends.append(plain(core.snapshot()))
            core.restore(saved)
            yield from compare("a state that is restored as it was saved", standing, plain(core.snapshot()), how)
        yield from compare("the same end from a restored state", ends[0], ends[1], how)
        twin.close()
        saved.close()


def _turn_spec(subject: Subject) -> str:
    assert subject.spec is not None  # the rule is skipped without one
    spec = copy.deepcopy(subject.spec)
    if "level" in spec.kwargs or str(spec.entry_point).startswith("agent_envs."):
        spec.kwargs = {**spec.kwargs, "level": "turn", "observation": "full"}
    return spec.to_json()
