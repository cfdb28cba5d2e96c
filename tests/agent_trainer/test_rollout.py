"""Tests of the rollout engine: nobody waits for another, a broken one ends itself only."""

from __future__ import annotations

import itertools
import random
import threading
import time
from collections.abc import Callable

import numpy as np
import pytest

from agent_trainer.rollout import EpisodeSpec, Rollout, RolloutEngine, turn_seed
from agent_trainer.sampler.base import SampledTurn
from tests.agent_trainer.small_world import CountingSampler, EchoEnv


def specs(count: int) -> list[EpisodeSpec]:
    return [EpisodeSpec(f"t{index}", index // 2, sampling_seed=index, group=index // 2) for index in range(count)]


def engine_of(
    before_feed: Callable[[str, int], None] = lambda _task, _turn: None,
    *,
    sampler: CountingSampler | None = None,
    num_turns: int = 3,
    max_in_flight: int = 8,
    num_threads: int = 4,
) -> RolloutEngine:
    used = sampler or CountingSampler()
    return RolloutEngine(lambda: EchoEnv(num_turns, before_feed), used, max_in_flight, num_threads)


def same(first: list[Rollout], second: list[Rollout]) -> bool:
    """Whether two runs gave the same episodes, token for token."""
    return all(
        a.spec == b.spec
        and a.episode is not None
        and b.episode is not None
        and a.episode.turns == b.episode.turns
        and np.array_equal(a.episode.tokens, b.episode.tokens)
        and np.array_equal(a.episode.sampler_logprobs, b.episode.sampler_logprobs)
        for a, b in zip(first, second, strict=True)
    )


def test_results_come_in_the_order_of_the_specs_with_what_was_sampled() -> None:
    rollouts = engine_of().run(specs(20))
    assert [rollout.spec for rollout in rollouts] == specs(20)
    for rollout in rollouts:
        episode = rollout.episode
        assert episode is not None
        assert (episode.task_id, episode.seed, len(episode.turns)) == (rollout.spec.task_id, rollout.spec.env_seed, 3)
        np.testing.assert_allclose(episode.sampler_logprobs[episode.action_mask], -np.log(9), rtol=1e-6)


def test_threads_and_their_timing_change_nothing() -> None:
    noise = random.Random(3)
    reference = engine_of(max_in_flight=1, num_threads=1).run(specs(24))
    for in_flight, threads in [(5, 2), (24, 8)]:
        shaky = engine_of(lambda _t, _n: time.sleep(noise.random() / 500), max_in_flight=in_flight, num_threads=threads)
        assert same(shaky.run(specs(24)), reference)


def test_a_slow_environment_holds_up_its_own_episode_only() -> None:
    rest_is_done = threading.Event()
    ended: list[str] = []

    def slow_first(task_id: str, turn: int) -> None:
        if task_id == "t0" and turn == 0:
            assert rest_is_done.wait(timeout=30), "the others waited for the slow one"

    def note(rollout: Rollout) -> None:
        ended.append(rollout.spec.task_id)
        if len(ended) == 11:
            rest_is_done.set()

    engine_of(slow_first, max_in_flight=4, num_threads=2).run(specs(12), progress=note)
    assert ended[-1] == "t0"
    assert len(ended) == 12


def test_tools_of_several_episodes_run_at_the_same_time() -> None:
    meeting = threading.Barrier(4, timeout=30)
    engine = engine_of(lambda _task, _turn: meeting.wait() and None, num_turns=1, max_in_flight=4, num_threads=4)
    assert not any(rollout.failed for rollout in engine.run(specs(4)))


def test_a_broken_environment_ends_one_episode_and_is_replaced() -> None:
    made: list[EchoEnv] = []

    def break_two(task_id: str, turn: int) -> None:
        if task_id in ("t3", "t7") and turn == 1:
            raise OSError("the index server went away")

    def make() -> EchoEnv:
        made.append(EchoEnv(3, break_two))
        return made[-1]

    sampler = CountingSampler()
    engine = RolloutEngine(make, sampler, max_in_flight=4, num_threads=2)
    rollouts = engine.run(specs(12))
    broken = [rollout for rollout in rollouts if rollout.failed]
    assert [rollout.spec.task_id for rollout in broken] == ["t3", "t7"]
    assert broken[0].episode is None
    assert broken[0].error == "OSError: the index server went away"
    assert engine.stats.failed == 2
    assert len(made) == 6
    assert sum(env.closed for env in made) == 2
    assert not sampler.held
    engine.run(specs(4))
    assert len(made) == 6


def test_a_reset_that_fails_ends_one_episode() -> None:
    engine = engine_of()
    bad = EpisodeSpec(task_id=None, env_seed=0, sampling_seed=0, group=0)  # type: ignore[arg-type]
    engine._make_env = lambda: _NoSuchTask()
    rollouts = engine.run([*specs(2), bad])
    assert [rollout.failed for rollout in rollouts] == [False, False, True]
    assert rollouts[2].error == "KeyError: 'no such task'"


class _NoSuchTask(EchoEnv):
    def reset(self, *, seed=None, options=None):  # type: ignore[no-untyped-def]
        if options is None:
            raise KeyError("no such task")
        return super().reset(seed=seed, options=options)


def test_a_replacement_that_cannot_be_made_ends_one_episode() -> None:
    made = 0

    def make() -> EchoEnv:
        nonlocal made
        made += 1
        if made == 2:
            raise MemoryError("no more environments")
        return EchoEnv(1, break_first)

    def break_first(task_id: str, _turn: int) -> None:
        if task_id == "t0":
            raise OSError("gone")

    seen: list[Rollout] = []
    engine = RolloutEngine(make, CountingSampler(), max_in_flight=1, num_threads=1)
    rollouts = engine.run(specs(4), progress=seen.append)
    assert [rollout.error for rollout in rollouts] == ["OSError: gone", "MemoryError: no more environments", None, None]
    assert seen == rollouts


def test_programmer_errors_raise_before_anything_runs() -> None:
    with pytest.raises(ValueError, match="no episodes"):
        engine_of().run([])
    with pytest.raises(ValueError, match="must be >= 1"):
        engine_of(num_threads=0)
    with pytest.raises(ValueError, match="must be >= 1"):
        engine_of(max_in_flight=0)

    def broken() -> EchoEnv:
        raise TypeError("a wrong option")

    with pytest.raises(TypeError, match="a wrong option"):
        RolloutEngine(broken, CountingSampler(), 2, 2).run(specs(2))


def test_an_error_of_the_sampler_ends_the_run_and_gives_everything_back() -> None:
    class Diverging(CountingSampler):
        def poll(self) -> list[SampledTurn]:
            if self.polls == 5:
                raise FloatingPointError("NaN")
            return super().poll()

    sampler = Diverging()
    engine = engine_of(sampler=sampler)
    with pytest.raises(FloatingPointError):
        engine.run(specs(20))
    assert not sampler.held
    sampler.polls = 6
    assert len(engine.run(specs(5))) == 5


def test_ctrl_c_comes_out_at_once_while_a_tool_is_still_busy() -> None:
    release_tool = threading.Event()
    sampler = CountingSampler()
    envs: list[EchoEnv] = []

    def busy(task_id: str, _turn: int) -> None:
        if task_id == "t0":
            release_tool.wait(timeout=30)

    def make() -> EchoEnv:
        envs.append(EchoEnv(3, busy))
        return envs[-1]

    def interrupt(_rollout: Rollout) -> None:
        raise KeyboardInterrupt

    engine = RolloutEngine(make, sampler, max_in_flight=4, num_threads=4)
    started = time.perf_counter()
    with pytest.raises(KeyboardInterrupt):
        engine.run(specs(20), progress=interrupt)
    assert time.perf_counter() - started < 5
    assert not sampler.held
    assert engine.stats.episodes >= 1
    release_tool.set()
    deadline = time.perf_counter() + 30
    while any(thread.name.startswith("episode-tools") for thread in threading.enumerate()):
        assert time.perf_counter() < deadline, "a thread stayed behind"
        time.sleep(0.01)
    # One environment ended its episode before and is kept; those in flight are closed, the busy one when it came back.
    assert sum(env.closed for env in envs) == 3


def test_a_tool_that_exits_the_interpreter_is_not_swallowed() -> None:
    def leave(_task: str, _turn: int) -> None:
        raise SystemExit(3)

    with pytest.raises(SystemExit):
        engine_of(leave).run(specs(3))


def test_every_turn_extends_the_context_under_one_key_and_keys_are_never_reused() -> None:
    sampler = CountingSampler()
    engine = engine_of(sampler=sampler, max_in_flight=3)
    engine.run(specs(6))
    first_run = {request.key for request in sampler.requests}
    for key in first_run:
        contexts = [request.context for request in sampler.requests if request.key == key]
        assert len(contexts) == 3
        for before, after in itertools.pairwise(contexts):
            np.testing.assert_array_equal(after[: len(before)], before)
    sampler.requests.clear()
    engine.run(specs(6))
    assert first_run.isdisjoint(request.key for request in sampler.requests)


def test_turn_seeds_depend_on_seed_and_turn_only() -> None:
    sampler = CountingSampler()
    engine_of(sampler=sampler, max_in_flight=2).run(specs(4))
    expected = {turn_seed(seed, turn) for seed in range(4) for turn in range(3)}
    assert {request.seed for request in sampler.requests} == expected
    assert len(expected) == 12


def test_stats_count_what_was_played() -> None:
    engine = engine_of()
    rollouts = engine.run(specs(10))
    stats = engine.stats
    tokens = sum(int(rollout.episode.action_mask.sum()) for rollout in rollouts if rollout.episode is not None)
    assert (stats.episodes, stats.failed, stats.turns, stats.generated_tokens) == (10, 0, 30, tokens)
    assert 0 < stats.generation_s + stats.environment_wait_s <= stats.seconds
    assert stats.tokens_per_s == pytest.approx(tokens / stats.seconds)


def test_a_turn_that_the_environment_does_not_end_is_an_error_of_that_episode() -> None:
    class EndsLater(EchoEnv):
        def __init__(self) -> None:
            super().__init__()
            self.core.is_whole_turn = lambda ids: False  # type: ignore[method-assign]

    engine = RolloutEngine(EndsLater, CountingSampler(), 2, 2)
    errors = [rollout.error or "" for rollout in engine.run(specs(3))]
    assert any("the sampler wrote a turn of" in error for error in errors)


def test_close_closes_the_pool() -> None:
    envs: list[EchoEnv] = []

    def make() -> EchoEnv:
        envs.append(EchoEnv())
        return envs[-1]

    engine = RolloutEngine(make, CountingSampler(), 3, 2)
    engine.run(specs(6))
    engine.close()
    assert [env.closed for env in envs] == [True] * 3
