"""Environments in processes of their own: the same episodes, and nothing left behind whatever happens."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

import agent_envs  # noqa: F401 - registers the ids
from agent_envs.errors import ConfigError
from agent_envs.vector import AgentVectorEnv

ID = "AgentR1/HotpotQA-v0"
SMALL: dict[str, Any] = {"max_context": 2500, "max_turn_tokens": 120, "max_turns": 3, "max_observation_tokens": 200}
CALL = '<tool_call>{"name": "search", "arguments": {"query": "a river"}}</tool_call>'


def make(workers: int, **options: Any) -> AgentVectorEnv:
    return gym.make_vec(ID, num_envs=5, level="turn", workers=workers, **(SMALL | options))


def is_running(pid: int) -> bool:
    """Whether a process lives and is no zombie."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


def wait_for_end(pids: list[int], seconds: float = 10.0) -> None:
    deadline = time.monotonic() + seconds
    while any(map(is_running, pids)):
        assert time.monotonic() < deadline, "a worker stayed behind"
        time.sleep(0.02)


def pids_of(vector: AgentVectorEnv) -> list[int]:
    return sorted({env._worker.pid for env in vector.envs})  # type: ignore[attr-defined]


@pytest.fixture(scope="module")
def remote() -> Any:
    vector = make(workers=2)
    yield vector
    pids = pids_of(vector)
    vector.close()
    wait_for_end(pids)


def test_the_episodes_are_those_of_one_process_and_each_is_played_once(remote: AgentVectorEnv) -> None:
    local = make(workers=0)
    seeds = [11, 12, 13, 14, 15]
    for vector in (remote, local):
        vector.reset(seed=seeds)
    texts = [CALL, "idle", "<answer>x</answer>", CALL + CALL, "é 漢"]
    for step in range(5):
        actions = [texts[(step + place) % 5] for place in range(5)]
        ours, theirs = remote.step(actions), local.step(actions)
        assert ours[0] == theirs[0]
        for one, other in zip(ours[1:4], theirs[1:4], strict=True):
            np.testing.assert_array_equal(one, other)
        assert {key: list(value) for key, value in ours[4].items() if key in ("event", "reason", "task_id")} == {
            key: list(value) for key, value in theirs[4].items() if key in ("event", "reason", "task_id")
        }
    assert [env.episode.task_id for env in remote.envs] == [env.episode.task_id for env in local.envs]
    assert len(pids_of(remote)) == 2


def test_a_worker_that_is_killed_fails_its_own_episodes_and_is_started_again(remote: AgentVectorEnv) -> None:
    remote.reset(seed=0)
    doomed, other = remote.envs[0]._worker, remote.envs[1]._worker  # type: ignore[attr-defined]
    mine = [place for place in range(5) if remote.envs[place]._worker is doomed]  # type: ignore[attr-defined]
    os.kill(doomed.pid, signal.SIGKILL)
    _, rewards, terminated, truncated, info = remote.step([CALL] * 5)
    assert truncated.tolist() == [place in mine for place in range(5)] and not terminated.any()
    assert all("worker process of this episode" in info["error"][place] for place in mine)
    assert not rewards.any()
    before = other.pid
    _, _, _, truncated, info = remote.step([CALL] * 5)  # the next step begins the lost ones anew
    assert not truncated.any() and doomed.pid != before == other.pid
    remote.step([CALL] * 5)
    assert all(remote.envs[place].episode.turns for place in mine)


def test_sends_and_receives_at_their_own_pace(remote: AgentVectorEnv) -> None:
    for place in range(5):
        remote.send_reset(place, seed=place)
    assert {ready.env_id for ready in remote.recv(min_ready=5)} == set(range(5))
    remote.send([CALL, "<answer>no</answer>"], [4, 2])
    ready = {step.env_id: step for step in remote.recv(min_ready=2)}
    assert ready[2].terminated and not ready[4].terminated
    assert remote.under_way == 0


SCRIPT = """
import sys, time
import gymnasium as gym
import agent_envs
if __name__ == "__main__":
    vector = gym.make_vec("AgentR1/HotpotQA-v0", num_envs=2, level="turn", workers=2)
    vector.reset(seed=0)
    print(*[env._worker.pid for env in vector.envs], flush=True)
    if sys.argv[1] == "exception":
        raise RuntimeError("as it happens")
    time.sleep(60)
"""


@pytest.mark.parametrize(
    "end",
    ["kill", pytest.param("exception", marks=pytest.mark.slow), pytest.param("interrupt", marks=pytest.mark.slow)],
)
def test_workers_end_with_their_parent_however_it_ends(end: str, tmp_path: Path) -> None:
    script = tmp_path / "parent.py"
    script.write_text(SCRIPT)
    parent = subprocess.Popen(
        [sys.executable, str(script), end],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    assert parent.stdout is not None
    pids = [int(pid) for pid in parent.stdout.readline().split()]
    assert len(pids) == 2 and (end == "exception" or all(map(is_running, pids)))
    if end != "exception":
        parent.send_signal(signal.SIGINT if end == "interrupt" else signal.SIGKILL)
    parent.wait(20)
    parent.stdout.close()
    wait_for_end(pids)


def test_bad_numbers_are_refused() -> None:
    for options, words in (
        ({"workers": -1}, "workers"),
        ({"deadline_s": 0.0}, "deadline_s"),
        ({"max_threads": 0}, "max_threads"),
    ):
        with pytest.raises(ConfigError, match=words):
            gym.make_vec(ID, num_envs=2, **options)
    with pytest.raises(ConfigError, match="num_envs"):
        gym.make_vec(ID, num_envs=0)
