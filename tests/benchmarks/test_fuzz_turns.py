"""Nonsense of every kind on every id: nothing crashes, nothing costs more than its budget."""

from __future__ import annotations

import random
import time

import gymnasium as gym
import pytest

from agent_envs.tasks.catalogue import TASKS
from benchmarks import fuzz_turns


def test_thousands_of_random_turns_on_every_id_leave_sound_records() -> None:
    ids = [TASKS.get(name).env_id for name in TASKS]
    counts = list(fuzz_turns.fuzz(ids, 2000))[-1]
    assert fuzz_turns.turns_of(counts) >= 2000
    assert all(counts[kind] > 0 for kind in fuzz_turns.KINDS)
    assert counts["ended: answered"] > 0
    assert counts["ended: max_turns"] > 0
    assert all(counts[f"turns of {env_id}"] > 0 for env_id in ids if not counts[f"left out: {env_id}"])


def test_the_same_seed_writes_the_same_turns() -> None:
    env = gym.make("AgentR1/HotpotQA-v0", level="turn").unwrapped
    env.reset(seed=0)
    core = env.core  # type: ignore[attr-defined]
    for write, _ in fuzz_turns.KINDS.values():
        assert write(core, random.Random(5)) == write(core, random.Random(5))


@pytest.mark.parametrize("piece", ["</answer>", "<answer>", "<tool_call>", "</think>", "{", "é"])
def test_a_turn_far_beyond_its_budget_costs_no_more_than_the_budget(piece: str) -> None:
    env = gym.make("AgentR1/HotpotQA-v0", level="turn").unwrapped
    env.reset(seed=0)
    start = time.perf_counter()
    *_, info = env.step("<think>" + piece * 50_000)
    assert time.perf_counter() - start < 5
    assert info["reason"] == "turn_tokens"
