"""Microseconds per token step, against a trivial Gymnasium environment with the same spaces, and whole-turn feeding.

Usage: python benchmarks/bench_token_step.py [--steps 50000] [--out benchmarks/results/token_step.json]

Both environments go through ``gym.make`` with its wrappers and are stepped in turn in one run; the ratio of the medians
is what to read. Feeding is measured on the episode core: a turn of ordinary tokens, and one full of ">" where each
token needs a closer look.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

import agent_envs  # noqa: F401 - registers the ids

ID = "AgentR1/HotpotQA-v0"
ORDINARY = 97  # the byte "a", which never ends a turn


class TrivialTokenEnv(gym.Env[Any, int]):
    """Appends a token to a buffer and gives a copy of it: the least that a fully observed token environment does."""

    def __init__(self, max_context: int, vocab_size: int) -> None:
        self.action_space = spaces.Discrete(vocab_size)
        tokens = spaces.Box(0, vocab_size - 1, (max_context,), np.int32)
        self.observation_space = spaces.Dict({"tokens": tokens, "length": spaces.Discrete(max_context + 1)})
        self._tokens = np.zeros(max_context, np.int32)
        self._length = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Empties the buffer."""
        super().reset(seed=seed)
        self._tokens[:] = 0
        self._length = 0
        return {"tokens": self._tokens.copy(), "length": np.int64(0)}, {}

    def step(self, action: int) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Appends a token."""
        self._tokens[self._length] = action
        self._length += 1
        return {"tokens": self._tokens.copy(), "length": np.int64(self._length)}, 0.0, False, False, {}


def microseconds_per_step(env: gym.Env[Any, Any], steps: int) -> float:
    """Steps an environment with ordinary tokens; the resets between are not timed."""
    spent, done = 0.0, 0
    while done < steps:
        env.reset(seed=done)
        count = min(1000, steps - done)
        start = time.perf_counter()
        for _ in range(count):
            env.step(ORDINARY)
        spent += time.perf_counter() - start
        done += count
    return spent / steps * 1e6


def step_ratio(max_context: int, steps: int, observation: str = "full") -> dict[str, Any]:
    """Both environments in alternation, five rounds each."""
    gym.register("Trivial-v0", lambda: TrivialTokenEnv(max_context, 259))
    ours = gym.make(ID, max_context=max_context, max_turn_tokens=1001, observation=observation)
    trivial = gym.make("Trivial-v0")
    del gym.registry["Trivial-v0"]
    rounds = [(microseconds_per_step(ours, steps), microseconds_per_step(trivial, steps)) for _ in range(5)]
    mine, theirs = (statistics.median(column) for column in zip(*rounds, strict=True))
    return {
        "what": f"token step, max_context {max_context}, observation {observation}",
        "us_ours": round(mine, 2),
        "us_trivial": round(theirs, 2),
        "ratio": round(mine / theirs, 2),
    }


def feeding(token_id: int, what: str) -> dict[str, Any]:
    """Million tokens/s of feeding whole turns of 30,000 tokens to the core."""
    core = gym.make(ID, max_context=32_768, max_turn_tokens=30_000).unwrapped.core  # type: ignore[attr-defined]
    turn = np.full(29_999, token_id, np.int32)
    rates: list[float] = []
    for seed in range(7):
        core.reset(seed)
        rates.append(len(turn) / _seconds(lambda: core.feed(turn)) / 1e6)
    return {"what": f"feeding a turn of {what}", "million_tokens_per_s": round(statistics.median(rates), 2)}


def _seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def main() -> None:
    """Measures, prints, and keeps the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=50_000, help="steps per round")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/token_step.json"))
    arguments = parser.parse_args()
    results = [
        step_ratio(4096, arguments.steps),
        step_ratio(32_768, arguments.steps),
        step_ratio(32_768, arguments.steps, "delta"),
        feeding(ORDINARY, "ordinary tokens"),
        feeding(ord(">"), 'candidates for a closing tag (all ">")'),
    ]
    for result in results:
        print("  ".join(f"{key} {value}" for key, value in result.items()))
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    main()
