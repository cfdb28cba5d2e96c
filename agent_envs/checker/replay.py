"""Plays given episodes in a process of its own: ``python -m agent_envs.checker.replay`` with an order on stdin.

The order is JSON: ``spec`` (an ``EnvSpec`` as JSON) and ``plays`` (pairs of a seed and turns). It answers with a digest
per play, as JSON.
"""

from __future__ import annotations

import hashlib
import json
import sys
from typing import Any

import gymnasium as gym
from gymnasium.envs.registration import EnvSpec

from agent_envs.checker.subject import level_of, transcript
from agent_envs.envs import AgentEnv, TurnEnv


def digest(steps: list[Any]) -> str:
    """A digest of a transcript; equal transcripts have equal ones in every process."""
    return hashlib.sha256(json.dumps(steps, sort_keys=True, default=repr).encode()).hexdigest()


def main() -> None:
    """Reads the order, plays, writes the digests."""
    order = json.load(sys.stdin)
    made = gym.make(EnvSpec.from_json(order["spec"])).unwrapped
    assert isinstance(made, AgentEnv)
    env: AgentEnv[Any, Any] = made if level_of(made) == "turn" else TurnEnv(made.core)
    digests = [digest(transcript(env, seed, turns)) for seed, turns in order["plays"]]
    env.close()
    json.dump(digests, sys.stdout)


if __name__ == "__main__":
    main()
