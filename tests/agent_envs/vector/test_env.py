"""The vector environment: Gymnasium's semantics to the letter, one batch a step, and no fault that spreads."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv

import agent_envs
from agent_envs.budgets import Budgets
from agent_envs.envs import TurnEnv
from agent_envs.episode import EpisodeCore
from agent_envs.errors import ConfigError, EpisodeOverError, InvalidActionError
from agent_envs.formats import FORMATS
from agent_envs.tokenizers import ByteTokenizer
from agent_envs.tools import Tool, tool
from agent_envs.vector import AgentVectorEnv
from tests.agent_envs import driving
from tests.agent_envs.small_task import SmallTask

ID = "AgentR1/HotpotQA-v0"
SMALL: dict[str, Any] = {"max_context": 2500, "max_turn_tokens": 120, "max_turns": 3, "max_observation_tokens": 200}
CALL = '<tool_call>{"name": "lookup", "arguments": {"number": %d}}</tool_call>'


def make(mode: AutoresetMode, num_envs: int = 3, **options: Any) -> AgentVectorEnv:
    return gym.make_vec(ID, num_envs=num_envs, autoreset_mode=mode.value, **(SMALL | options))


def peer(mode: AutoresetMode, num_envs: int = 3, **options: Any) -> SyncVectorEnv:
    return SyncVectorEnv([lambda: gym.make(ID, **(SMALL | options))] * num_envs, autoreset_mode=mode)


def same(one: Any, other: Any, where: str = "") -> None:
    """Equal in value and type, arrays and all."""
    assert type(one) is type(other) or {type(one), type(other)} <= {tuple, list}, (where, type(one), type(other))
    if isinstance(one, dict):
        assert set(one) == set(other), where
        for key in one:
            same(one[key], other[key], f"{where}/{key}")
    elif isinstance(one, np.ndarray):
        assert one.dtype == other.dtype and one.shape == other.shape, where
        if one.dtype == object:
            for a, b in zip(one, other, strict=True):
                same(a, b, where)
        else:
            np.testing.assert_array_equal(one, other, err_msg=where)
    elif isinstance(one, tuple | list):
        for a, b in zip(one, other, strict=True):
            same(a, b, where)
    else:
        assert one == other, where


@pytest.mark.parametrize("mode", [AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP])
@pytest.mark.parametrize("level", ["token", "turn"])
def test_steps_equal_those_of_gymnasiums_own_vector(mode: AutoresetMode, level: str) -> None:
    ours, theirs = make(mode, level=level), peer(mode, level=level)
    same(ours.reset(seed=11), theirs.reset(seed=11))
    core = theirs.envs[0].unwrapped.core  # type: ignore[attr-defined]
    texts = [
        '<tool_call>{"name": "search", "arguments": {"query": "a river"}}</tool_call>',
        "idle",
        "<answer>x</answer>",
    ]
    streams = [[*core.encode_turn(texts[i]), *core.encode_turn(texts[(i + 1) % 3]) * 3] for i in range(3)]
    ended = 0
    for step in range(6 if level == "turn" else 130):
        if level == "turn":
            actions: Any = tuple(texts[(step + i) % 3] for i in range(3))
        else:
            actions = np.array([stream[step % len(stream)] for stream in streams])
        got = ours.step(actions)
        same(got, theirs.step(actions), f"step {step}")
        ended += int(got[2].sum() + got[3].sum())
    assert ended >= 2
    ours.close()


def test_without_autoreset_a_mask_says_who_begins_again() -> None:
    ours, theirs = make(AutoresetMode.DISABLED, level="turn"), peer(AutoresetMode.DISABLED, level="turn")
    same(ours.reset(seed=[1, 2, 3]), theirs.reset(seed=[1, 2, 3]))
    actions = ("<answer>x</answer>", "idle", "<answer>y</answer>")
    same(ours.step(actions), theirs.step(actions))
    with pytest.raises(EpisodeOverError, match="environment 0"):
        ours.step(actions)
    mask = np.array([True, False, True])
    same(
        ours.reset(seed=[7, 8, 9], options={"reset_mask": mask})[1],
        theirs.reset(seed=[7, 8, 9], options={"reset_mask": mask.copy()})[1],
    )
    same(ours.step(actions), theirs.step(actions))


def test_the_space_holds_what_comes_out() -> None:
    for options in ({"level": "token"}, {"level": "token", "observation": "delta"}, {"level": "turn"}):
        env = make(AutoresetMode.NEXT_STEP, **options)
        observation, _ = env.reset(seed=0)
        assert env.observation_space.contains(observation)
        observation, *_ = env.step(env.action_space.sample())
        assert env.observation_space.contains(observation)
        assert env.metadata["autoreset_mode"] is AutoresetMode.NEXT_STEP


def test_observations_of_earlier_steps_stay_as_they_were() -> None:
    env = make(AutoresetMode.NEXT_STEP)
    first, _ = env.reset(seed=0)
    kept = first["tokens"].copy()
    env.step(np.array([65, 66, 67]))
    np.testing.assert_array_equal(first["tokens"], kept)


def test_groups_are_begun_by_equal_seeds_or_by_task_ids() -> None:
    env = make(AutoresetMode.NEXT_STEP, level="turn", num_envs=4)
    _, info = env.reset(seed=[5, 5, 6, 6])
    assert info["task_id"][0] == info["task_id"][1] != info["task_id"][2] == info["task_id"][3]
    ids = env.envs[0].task.task_ids()
    _, info = env.reset(options={"task_id": [ids[3], ids[3], ids[9], ids[9]]})
    assert info["task_id"].tolist() == [ids[3], ids[3], ids[9], ids[9]]


# Faults and stragglers, on tools that a test can hold up


class Lookup:
    """A tool whose documents take their time, break, or are garbage."""

    def __init__(self) -> None:
        self.batches: list[int] = []
        self.gate = threading.Event()
        self.broken: set[int] = set()

    def one(self, number: int) -> str:
        """Look up.

        Args:
            number: which.
        """
        if number == 13:
            self.gate.wait(5.0)
        if number in self.broken:
            raise RuntimeError(f"document {number} is lost")
        return 5 if number == 99 else f"document {number}"  # type: ignore[return-value]

    def many(self, calls: Sequence[dict[str, Any]]) -> list[str]:
        self.batches.append(len(calls))
        return [self.one(**call) for call in calls]

    def tool(self, batch: bool, timeout_s: float | None = None) -> Tool:
        return tool(self.one, name="lookup", batch=self.many if batch else None, timeout_s=timeout_s)


def small_vector(a_tool: Tool, num_envs: int, deadline_s: float = 5.0) -> AgentVectorEnv:
    task = SmallTask(tools=(a_tool,))
    envs = [
        TurnEnv(EpisodeCore("AgentR1/Small-v0", task, ByteTokenizer(), FORMATS.get("hermes"), Budgets()))
        for _ in range(num_envs)
    ]
    vector = AgentVectorEnv(envs, AutoresetMode.DISABLED, deadline_s)
    vector.reset(seed=0)
    return vector


def test_all_searches_of_a_step_are_one_batch() -> None:
    lookup = Lookup()
    vector = small_vector(lookup.tool(batch=True), 12)
    texts, *_ = vector.step([CALL % index for index in range(12)])
    assert lookup.batches == [12]
    assert all(f"document {index}\n" in text for index, text in enumerate(texts))
    vector.step(["idle"] * 11 + [(CALL + CALL) % (1, 2)])
    assert lookup.batches == [12, 2]


@pytest.mark.parametrize("batch", [False, True])
def test_a_crash_is_one_episodes_truncation_with_a_typed_error(batch: bool) -> None:
    lookup = Lookup()
    lookup.broken = {3, 5}
    vector = small_vector(lookup.tool(batch), 8)
    texts, rewards, terminated, truncated, info = vector.step([CALL % index for index in range(8)])
    assert truncated.tolist() == [index in (3, 5) for index in range(8)]
    assert not terminated.any()
    assert all(f"document {index}\n" in texts[index] for index in range(8) if index not in (3, 5))
    assert info["reason"].tolist() == ["tool_failure" if index in (3, 5) else "" for index in range(8)]
    assert "RuntimeError: document 3 is lost" in info["error"][3] and info["error"][4] == ""
    assert vector.envs[3].episode.failed and rewards[3] == 0.0


@pytest.mark.parametrize("batch", [False, True])
def test_a_hang_costs_its_own_episode_and_no_thread_for_good(batch: bool) -> None:
    before = set(threading.enumerate())
    lookup = Lookup()
    vector = small_vector(lookup.tool(batch, timeout_s=0.4), 8)
    started = time.monotonic()
    texts, _, _, truncated, info = vector.step([CALL % (13 if index == 2 else index) for index in range(8)])
    assert time.monotonic() - started < 2.0
    assert truncated.tolist() == [index == 2 for index in range(8)]
    assert "did not answer" in info["error"][2]
    assert all(f"document {index}\n" in texts[index] for index in range(8) if index != 2)
    lookup.gate.set()
    vector.close()
    deadline = time.monotonic() + 3.0
    while set(threading.enumerate()) - before and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not set(threading.enumerate()) - before


def test_the_episodes_own_deadline_ends_it_by_wall_clock() -> None:
    lookup = Lookup()
    vector = small_vector(lookup.tool(batch=False), 2, deadline_s=0.3)
    _, _, _, truncated, info = vector.step([CALL % 13, (CALL + CALL) % (1, 2)])
    assert truncated.tolist() == [True, False]
    assert info["reason"][0] == "wall_clock"
    lookup.gate.set()


def test_garbage_is_the_tools_failure() -> None:
    vector = small_vector(Lookup().tool(batch=True), 3)
    _, _, _, truncated, info = vector.step([CALL % 1, CALL % 99, CALL % 2])
    assert truncated.tolist() == [False, True, False]
    assert "gives str or ToolOutput, not int" in info["error"][1]


def test_a_task_that_breaks_breaks_one_episode() -> None:
    vector = small_vector(Lookup().tool(batch=True), 3)

    def broken(*_args: Any) -> float:
        raise ZeroDivisionError("no reward today")

    vector.envs[1].core.task = SmallTask(tools=vector.envs[1].core.tools)
    vector.envs[1].core.task.reward = broken  # type: ignore[method-assign]
    _, _, terminated, truncated, info = vector.step(["<answer>alpha</answer>"] * 3)
    assert terminated.tolist() == [True, False, True] and truncated.tolist() == [False, True, False]
    assert "ZeroDivisionError: no reward today" in info["error"][1]


def test_a_straggler_holds_up_nobody() -> None:
    lookup = Lookup()
    vector = small_vector(lookup.tool(batch=False), 4)
    vector.send([CALL % 13, CALL % 1, CALL % 2, CALL % 3])
    assert {ready.env_id for ready in vector.recv(min_ready=3)} == {1, 2, 3}
    assert vector.recv(min_ready=1, timeout_s=0.01) == []
    for _ in range(3):
        vector.send([CALL % 4], [2])
        (ready,) = vector.recv()
        assert ready.env_id == 2 and "document 4" in ready.observation
    with pytest.raises(InvalidActionError, match="still at work"):
        vector.send([CALL % 4, CALL % 5], [2, 0])
    assert vector.under_way == 1 and len(vector.envs[2].core.turns) == 4
    lookup.gate.set()
    (late,) = vector.recv()
    assert late.env_id == 0 and "document 13" in late.observation


def test_a_step_under_way_is_dropped_by_a_reset() -> None:
    lookup = Lookup()
    vector = small_vector(lookup.tool(batch=False), 2)
    vector.send([CALL % 13, CALL % 1])
    vector.recv(min_ready=1)
    vector.send_reset(0, seed=4)
    (begun,) = vector.recv()
    assert begun.env_id == 0 and "What is document" in begun.observation
    assert vector.under_way == 0
    vector.send([CALL % 2], [0])
    (ready,) = vector.recv()
    assert "document 2" in ready.observation
    lookup.gate.set()
    time.sleep(0.05)
    assert vector.recv(timeout_s=0.0) == []


def test_a_wrong_action_steps_nobody() -> None:
    vector = make(AutoresetMode.NEXT_STEP)
    vector.reset(seed=0)
    lengths = [env.core.length for env in vector.envs]
    for actions in ([65, 66, 10**6], [65, "x", 66], [65, 66]):
        with pytest.raises(InvalidActionError):
            vector.step(actions)
    with pytest.raises(InvalidActionError, match="twice"):
        vector.send([65, 65], [1, 1])
    assert [env.core.length for env in vector.envs] == lengths


def test_bad_arguments_are_refused() -> None:
    with pytest.raises(ConfigError, match="num_envs"):
        AgentVectorEnv([])
    for options in ({"deadline_s": 0}, {"max_threads": 0}):
        with pytest.raises(ConfigError):
            make(AutoresetMode.NEXT_STEP, **options)
    with pytest.raises(ConfigError, match="equal spaces"):
        AgentVectorEnv([agent_envs.make_env("hotpotqa"), agent_envs.make_env("hotpotqa", max_context=999)])
    vector = make(AutoresetMode.NEXT_STEP)
    with pytest.raises(ValueError, match="seed"):
        vector.reset(seed=[1])
    with pytest.raises(ValueError, match="reset_mask"):
        vector.reset(options={"reset_mask": np.zeros(3, bool)})
    with pytest.raises(ConfigError, match="unknown reset options"):
        vector.reset(options={"seed": 1})


def test_random_streams_through_a_vector_are_the_episodes_of_single_environments() -> None:
    vector = make(AutoresetMode.DISABLED, num_envs=4, split="mini/test")
    vector.reset(seed=[1, 2, 3, 4])
    single = agent_envs.make_env("hotpotqa", split="mini/test", **SMALL)
    streams = [driving.random_stream(env.core, seed) for seed, env in enumerate(vector.envs)]
    at = [0] * 4
    while not all(env.core.done for env in vector.envs):
        live = [index for index, env in enumerate(vector.envs) if not env.core.done]
        vector.send([streams[index][at[index]] for index in live], live)
        vector.recv(min_ready=len(live))
        for index in live:
            at[index] += 1
    for index, env in enumerate(vector.envs):
        single.reset(seed=index + 1)
        for token_id in streams[index][: at[index]]:
            single.step(token_id)
        mine, other = driving.plain(env.episode), driving.plain(single.episode)
        assert mine == other


class SlowTask(SmallTask):
    """A task whose reward waits for somebody, as a judge's does."""

    may_block = True

    def __init__(self, gate: threading.Barrier | threading.Event) -> None:
        super().__init__()
        self.gate = gate

    def reward(self, outcome: Any) -> float:
        if outcome.reason is not None:
            assert self.gate.wait(5.0) is not False
        return super().reward(outcome)


def test_judges_of_several_episodes_wait_at_the_same_time() -> None:
    vector = small_vector(Lookup().tool(batch=False), 4)
    vector.close()
    task = SlowTask(threading.Barrier(4))
    envs = [
        TurnEnv(EpisodeCore("AgentR1/Small-v0", task, ByteTokenizer(), FORMATS.get("hermes"), Budgets()))
        for _ in range(4)
    ]
    vector = AgentVectorEnv(envs, AutoresetMode.DISABLED, 5.0)
    vector.reset(seed=0)
    _, _, terminated, _, info = vector.step(["<answer>alpha</answer>"] * 4)
    assert terminated.all() and not any(info["error"])


def test_a_judge_that_hangs_costs_its_own_episode_and_its_place_is_taken() -> None:
    gate = threading.Event()
    env = TurnEnv(EpisodeCore("AgentR1/Small-v0", SlowTask(gate), ByteTokenizer(), FORMATS.get("hermes"), Budgets()))
    vector = AgentVectorEnv([env], AutoresetMode.DISABLED, deadline_s=0.2)
    vector.reset(seed=0)
    vector.send(["<answer>alpha</answer>"])
    (ready,) = vector.recv()
    assert ready.truncated and ready.info["reason"] == "wall_clock" and vector.envs[0] is not env
    gate.set()
    vector.send_reset(0, seed=1)
    (begun,) = vector.recv()
    assert begun.error is None
    vector.send(["idle"])
    (ready,) = vector.recv()
    assert not ready.truncated and len(vector.envs[0].core.turns) == 1
