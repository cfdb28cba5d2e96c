"""Many episodes side by side, against Gymnasium's vectors of the same environments, in one run.

Usage: python benchmarks/bench_vector.py [--rounds 7] [--out benchmarks/results/vector.json]

1. A vector step of 64 episodes whose tool takes 50 ms: ``AgentVectorEnv``, Gymnasium's ``SyncVectorEnv``, and one call
   of the tool alone, which is the least that a step can take.
2. One tool of the 64 hangs: how long the other 63 take (``recv(min_ready=63)``), against the same without a hang.
3. Token stepping: tokens/s of a single environment, of ``AgentVectorEnv`` and of Gymnasium's Sync and Async vectors.

The sides take turns within each round, so that a busy machine is busy for all; read the ratios of the medians. The
system's load is kept with the figures.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.vector import SyncVectorEnv

import agent_envs  # noqa: F401 - registers the ids

EPISODES = 64
TOOL_S = 0.05
HANGS = 13  # the argument on which the tool hangs
TEXT = "The river runs through the town and under nine bridges. " * 8
CALL = '<tool_call>{"name": "lookup", "arguments": {"number": %d}}</tool_call>'
ORDINARY = 97  # the byte "a", which never ends a turn

released = threading.Event()  # lets hanging calls go


def lookup(number: int) -> str:
    """Look up a document.

    Args:
        number: which document.
    """
    if number == HANGS:
        released.wait()
    else:
        time.sleep(TOOL_S)
    return TEXT


def seconds(work: Callable[[], object]) -> float:
    """How long it takes."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def medians_ms(times: Mapping[str, list[float]]) -> dict[str, Any]:
    """The medians in milliseconds, and the extremes beside them."""
    return {
        name: {key: round(value * 1e3, 2) for key, value in _summary(found).items()} for name, found in times.items()
    }


def _summary(found: list[float]) -> dict[str, float]:
    return {"median_ms": statistics.median(found), "least_ms": min(found), "most_ms": max(found)}


def slow_tool(rounds: int) -> dict[str, Any]:
    """A step of 64 episodes: ours five times a round, Gymnasium's (64 calls in a row) once."""
    options: dict[str, Any] = {"level": "turn", "max_turns": 100, "max_context": 100_000}
    options |= {"tools": [lookup], "items": [{"question": "What does it say?", "answer": "rivers"}]}
    ours = gym.make_vec("AgentR1/ToolUse-v0", EPISODES, autoreset_mode="Disabled", **options)
    gymnasium = SyncVectorEnv([lambda: gym.make("AgentR1/ToolUse-v0", **options)] * EPISODES)
    calls = [CALL % 1] * EPISODES
    for envs in (ours, gymnasium):
        envs.reset(seed=0)
    same = list(ours.step(calls)[0]) == list(gymnasium.step(calls)[0])
    assert same, "the two vectors give different observations"
    times: dict[str, list[float]] = {"one call": [], "ours": [], "ours, CPU time": [], "SyncVectorEnv": []}
    for _ in range(rounds):
        for _ in range(5):
            times["one call"].append(seconds(lambda: lookup(1)))
            cpu_start = time.process_time()
            times["ours"].append(seconds(lambda: ours.step(calls)))
            times["ours, CPU time"].append(time.process_time() - cpu_start)
        times["SyncVectorEnv"].append(seconds(lambda: gymnasium.step(calls)))
    ours.close()
    found = medians_ms(times)
    found["ratio to SyncVectorEnv"] = _ratio(times, "SyncVectorEnv", "ours")
    found["ratio to one call"] = _ratio(times, "ours", "one call")
    return found


def one_hangs(rounds: int) -> dict[str, Any]:
    """How long 63 episodes take beside a 64th whose tool answers, and beside one whose tool hangs."""
    tools: dict[str, Any] = {"tools": [lookup], "items": [{"question": "What does it say?", "answer": "rivers"}]}
    envs: Any = gym.make_vec(
        "AgentR1/ToolUse-v0",
        EPISODES,
        level="turn",
        autoreset_mode="Disabled",
        max_turns=100,
        max_context=100_000,
        **tools,
    ).unwrapped
    envs.reset(seed=0)
    usual, one_hanging = [CALL % 1] * EPISODES, [CALL % HANGS, *[CALL % 1] * (EPISODES - 1)]
    times: dict[str, list[float]] = {"usual": [], "beside a hang": []}

    def others(calls: list[str]) -> None:
        envs.send(calls)
        ready = envs.recv(min_ready=EPISODES - 1)
        assert len(ready) >= EPISODES - 1
        assert not any(step.truncated for step in ready)

    for _ in range(rounds * 5):
        for name, calls in (("usual", usual), ("beside a hang", one_hanging)):
            times[name].append(seconds(lambda calls=calls: others(calls)))  # type: ignore[misc]
            released.set()
            envs.recv(min_ready=EPISODES)
            released.clear()
    envs.close()
    found = medians_ms(times)
    found["ratio"] = _ratio(times, "beside a hang", "usual")
    return found


def token_stepping(num_envs: int, rounds: int, steps: int) -> dict[str, Any]:
    """Tokens/s of a single environment and of vectors of that size."""
    options: dict[str, Any] = {"max_context": 4096, "max_turn_tokens": steps + 2}
    single = gym.make("AgentR1/HotpotQA-v0", **options)
    modes: dict[str, Any] = {"ours": None, "SyncVectorEnv": "sync", "AsyncVectorEnv": "async"}
    vectors = {
        name: gym.make_vec("AgentR1/HotpotQA-v0", num_envs, vectorization_mode=mode, **options)
        for name, mode in modes.items()
    }
    rates: dict[str, list[float]] = {name: [] for name in ("single", *vectors)}
    actions = np.full(num_envs, ORDINARY)
    for _ in range(rounds):
        # As many tokens as the vectors take: a short run would have a busy machine to itself.
        alone = [_tokens_per_s(single, ORDINARY, 1, steps)[0] for _ in range(num_envs)]
        rates["single"].append(statistics.harmonic_mean(alone))
        last: dict[str, Any] = {}
        for name, envs in vectors.items():
            rate, last[name] = _tokens_per_s(envs, actions, num_envs, steps)
            rates[name].append(rate)
        for name in ("SyncVectorEnv", "AsyncVectorEnv"):
            np.testing.assert_array_equal(last[name]["tokens"], last["ours"]["tokens"])
    for envs in vectors.values():
        envs.close()
    found: dict[str, Any] = {name: round(statistics.median(rate)) for name, rate in rates.items()}
    for name in ("single", "SyncVectorEnv", "AsyncVectorEnv"):
        found[f"ratio to {name}"] = _ratio(rates, "ours", name)
    return found


def _tokens_per_s(env: Any, action: Any, num_envs: int, steps: int) -> tuple[float, Any]:
    """The rate of so many steps after a reset, which is not timed, and the last observation."""
    observation, _ = env.reset(seed=0)
    start = time.perf_counter()
    for _ in range(steps):
        observation = env.step(action)[0]
    return num_envs * steps / (time.perf_counter() - start), observation


def _ratio(values: Mapping[str, list[float]], upper: str, lower: str) -> float:
    return round(statistics.median(values[upper]) / statistics.median(values[lower]), 3)


def main() -> None:
    """Measures, prints, and keeps the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--steps", type=int, default=300, help="of token stepping, in each round")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/vector.json"))
    arguments = parser.parse_args()
    record: dict[str, Any] = {
        "python": platform.python_version(),
        "gymnasium": gym.__version__,
        "cores": os.cpu_count(),
        "load_average": [round(os.getloadavg()[0], 1)],
    }
    parts: dict[str, Callable[[], dict[str, Any]]] = {
        f"a step of {EPISODES} episodes, {TOOL_S * 1e3:.0f} ms tool": lambda: slow_tool(arguments.rounds),
        f"{EPISODES - 1} of {EPISODES} episodes, one tool hangs": lambda: one_hangs(arguments.rounds),
        "tokens/s, 8 environments": lambda: token_stepping(8, arguments.rounds, arguments.steps),
        "tokens/s, 64 environments": lambda: token_stepping(64, arguments.rounds, arguments.steps),
    }
    for what, measure in parts.items():
        record[what] = measure()
        record["load_average"].append(round(os.getloadavg()[0], 1))
        print(what, *(f"{key}: {value}" for key, value in record[what].items()), sep="\n  ", flush=True)
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.write_text(json.dumps(record, indent=2) + "\n")


if __name__ == "__main__":
    main()
