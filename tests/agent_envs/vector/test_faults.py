"""Faults that a vector environment survives: what is dropped, late or broken reaches no other episode."""

from __future__ import annotations

import gc
import threading
import time
from typing import Any

import numpy as np
import pytest
from gymnasium.vector import AutoresetMode

from agent_envs.budgets import Budgets
from agent_envs.envs import TurnEnv
from agent_envs.episode import EpisodeCore
from agent_envs.formats import FORMATS
from agent_envs.tokenizers import ByteTokenizer
from agent_envs.vector import AgentVectorEnv
from tests.agent_envs.small_task import SmallTask
from tests.agent_envs.vector.test_env import CALL, Lookup, SlowTask, small_vector


class SlowBegin(SmallTask):
    """A task that begins one of its items only when somebody opens the gate."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = threading.Event()
        self.waiting = threading.Event()
        self.begun: list[str] = []

    def begin(self, item: str) -> Any:
        if item == "beta":
            self.waiting.set()
            self.gate.wait(10.0)
        self.begun.append(item)
        return super().begin(item)


def vector_of(task: SmallTask, num_envs: int, **options: Any) -> AgentVectorEnv:
    envs = [
        TurnEnv(EpisodeCore("AgentR1/Small-v0", task, ByteTokenizer(), FORMATS.get("hermes"), Budgets()))
        for _ in range(num_envs)
    ]
    return AgentVectorEnv(envs, AutoresetMode.DISABLED, **options)


def test_a_dropped_reset_that_no_thread_has_begun_never_runs() -> None:
    task = SlowBegin()
    vector = vector_of(task, 2, max_threads=1)
    task.begun.clear()
    vector.send_reset(0, task_id="small-1")  # takes the only thread
    vector.send_reset(1, task_id="small-0")  # waits for it
    vector.drop(1)
    vector.send_reset(1, task_id="small-2")
    task.gate.set()
    begun = {ready.env_id: ready.info["task_id"] for ready in vector.recv(min_ready=2)}
    assert begun == {0: "small-1", 1: "small-2"}
    assert task.begun == ["beta", "gamma"]


def test_a_dropped_reset_that_has_begun_stays_with_the_environment_it_was_for() -> None:
    task = SlowBegin()
    vector = vector_of(task, 1)
    vector.send_reset(0, task_id="small-1")
    dropped = vector.envs[0]
    assert task.waiting.wait(5.0)
    vector.send_reset(0, task_id="small-2")
    (begun,) = vector.recv()
    task.gate.set()
    deadline = time.monotonic() + 5.0
    while dropped.core.done and time.monotonic() < deadline:
        time.sleep(0.005)
    assert dropped.episode.task_id == "small-1"
    assert begun.info["task_id"] == vector.envs[0].episode.task_id == "small-2"


def test_a_begin_that_hangs_costs_its_own_episode_and_never_the_caller() -> None:
    task = SlowBegin()
    vector = vector_of(task, 2, deadline_s=0.2)
    task.items = ("beta", "gamma")  # beginning any new core would hang now
    started = time.monotonic()
    vector.send_reset(0, task_id="small-0")
    vector.send_reset(1, task_id="small-1")
    ready = {one.env_id: one for one in vector.recv(min_ready=2)}
    assert time.monotonic() - started < 3.0
    assert ready[0].info["reason"] == "wall_clock" and ready[1].info["task_id"] == "small-1"
    task.gate.set()


def test_results_that_come_after_the_deadline_reach_no_later_episode() -> None:
    lookup = Lookup()
    task = SlowTask(threading.Event())
    task.gate.set()
    task.tools = (lookup.tool(batch=False),)
    vector = vector_of(task, 1, deadline_s=0.3)
    vector.reset(seed=0)
    late = vector.envs[0]
    vector.send([CALL % 13])  # whose tool waits at the gate, in a step that a thread plays
    (ready,) = vector.recv()
    assert ready.truncated and ready.info["reason"] == "wall_clock"
    vector.send_reset(0, seed=1)
    vector.recv()
    calls = vector.envs[0].begin_step(CALL % 2)
    lookup.gate.set()
    time.sleep(0.2)
    assert calls is not None and vector.envs[0].core.pending == calls and vector.envs[0] is not late


def test_dropping_what_has_come_back_loses_no_thread() -> None:
    lookup = Lookup()
    vector = small_vector(lookup.tool(batch=False), 2)
    before = set(threading.enumerate())
    for _ in range(20):
        vector.send([CALL % 1, CALL % 2])
        time.sleep(0.02)  # the results lie there, and nobody has taken them
        for index in range(2):
            vector.send_reset(index, seed=0)
        assert len(vector.recv(min_ready=2)) == 2
    assert 1 <= vector._dispatcher.num_threads <= 8
    vector.close()
    deadline = time.monotonic() + 3.0
    while set(threading.enumerate()) - before and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not set(threading.enumerate()) - before


@pytest.mark.parametrize("method", ["decide", "reward", "metrics", "no_action_hint", "answer_request"])
@pytest.mark.parametrize("text", ["idle", CALL % 1, "<answer>alpha</answer>"])
def test_whatever_breaks_in_a_task_breaks_one_episode(method: str, text: str) -> None:
    vector = small_vector(Lookup().tool(batch=True), 2)
    vector.envs[1].core.task = SmallTask(tools=vector.envs[1].core.tools)

    def broken(*_args: Any) -> Any:
        raise ZeroDivisionError("not today")

    setattr(vector.envs[1].core.task, method, broken)
    for _ in range(6):
        vector.send([text], [0])
        vector.send([text], [1])
        first, second = sorted(vector.recv(min_ready=2), key=lambda ready: ready.env_id)
        assert first.error is None
        if second.error is not None:
            assert second.truncated or second.terminated
            assert isinstance(second.error, ZeroDivisionError)
            record = vector.envs[1].episode
            assert [turn.stop for turn in record.turns] == sorted(turn.stop for turn in record.turns)
            for turn in record.turns:
                assert record.action_mask[turn.start : turn.stop].all()
                assert not record.action_mask[turn.stop : turn.feedback_stop].any()
            assert sum(turn.stop - turn.start for turn in record.turns) == int(record.action_mask.sum())
        if vector.envs[0].core.done or vector.envs[1].core.done:
            break


def test_seeds_of_numpy_count_up_too() -> None:
    one, other = small_vector(Lookup().tool(batch=False), 3), small_vector(Lookup().tool(batch=False), 3)
    assert one.reset(seed=np.int64(4))[1]["task_id"].tolist() == other.reset(seed=4)[1]["task_id"].tolist()


def test_a_set_that_nobody_closes_leaves_no_thread() -> None:
    before = set(threading.enumerate())
    vector = small_vector(Lookup().tool(batch=True), 4)
    vector.step([CALL % 1] * 4)
    vector.step([(CALL + CALL) % (1, 2)] * 4)
    assert set(threading.enumerate()) - before
    del vector
    gc.collect()
    deadline = time.monotonic() + 3.0
    while set(threading.enumerate()) - before and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not set(threading.enumerate()) - before
