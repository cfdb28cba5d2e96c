"""Faults of a retrieval server in 400 episodes: each costs its own, by a typed error, and no other."""

from __future__ import annotations

import pytest

from benchmarks.fault_injection import ERRORS, RESTART, SHORT_RESTART, Plan, run_one


@pytest.mark.parametrize("kind", ERRORS)
def test_the_errors_are_those_injected_and_no_other_episode_is_touched(kind: str) -> None:
    outcome, threads_left = run_one(Plan(kind, rate=0.1, episodes=40, num_envs=20))
    assert outcome.wrong == []
    assert outcome.injected == {RESTART: 20, SHORT_RESTART: 0}.get(kind, 4)
    assert outcome.failed == outcome.injected
    assert outcome.errors == ({ERRORS[kind]: outcome.injected} if outcome.injected else {})
    assert threads_left == 0
