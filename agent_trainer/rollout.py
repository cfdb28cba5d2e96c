"""Many episodes in flight through one sampler, none of them waiting for another.

The calling thread polls the sampler, one model call at a time. A turn that is finished goes to a thread that feeds it
to its environment, where tools run; meanwhile the others keep generating, and the episode joins again when its
environment has replied. A slow tool holds up its own episode only.

What an episode says depends on its spec alone: each turn's random stream is a hash of the episode's sampling seed and
the turn's number, and results come in the order of the specs. (Batches differ with the threads' timing, and a model
rounds differently in another batch; a near tie can fall the other way. See the sampler.)
"""

from __future__ import annotations

import functools
import hashlib
import logging
import queue
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import gymnasium as gym

from agent_envs.types import Episode
from agent_trainer.sampler.base import SampledTurn, Sampler, TurnRequest

_log = logging.getLogger(__name__)

# How long nothing at all may happen before a line says who is being waited for, in seconds.
_SILENCE_S = 60.0


@dataclass(frozen=True, slots=True)
class EpisodeSpec:
    """Which episode to play.

    Attributes:
        task_id: of the environment's task.
        env_seed: given to ``reset``; members of one group share it.
        sampling_seed: of the policy's random streams, >= 0; members of one group differ in it.
        group: which episodes are compared with each other.
    """

    task_id: str
    env_seed: int
    sampling_seed: int
    group: int


@dataclass(frozen=True, slots=True)
class Rollout:
    """An episode that was played, or the reason why there is none.

    Attributes:
        spec: what was asked for.
        episode: the record, or None where the environment broke.
        error: None, or the kind and message of what broke it.
    """

    spec: EpisodeSpec
    episode: Episode | None
    error: str | None = None

    @property
    def failed(self) -> bool:
        """True where the environment or its infrastructure failed, so that the episode says nothing of the policy."""
        return self.episode is None or self.episode.failed


@dataclass(frozen=True, slots=True)
class RolloutStats:
    """Where the time of a run went.

    Attributes:
        episodes: played to an end, failed ones included.
        failed: of these, those that say nothing of the policy.
        turns: that the policy finished.
        generated_tokens: in those turns.
        seconds: of the whole run, wall clock.
        generation_s: of these, inside the sampler.
        environment_wait_s: of these, with nothing to generate because every episode waited for its environment.
    """

    episodes: int = 0
    failed: int = 0
    turns: int = 0
    generated_tokens: int = 0
    seconds: float = 0.0
    generation_s: float = 0.0
    environment_wait_s: float = 0.0

    @property
    def tokens_per_s(self) -> float:
        """Generated tokens per second of the whole run; 0 before any time has passed."""
        return self.generated_tokens / self.seconds if self.seconds > 0 else 0.0


@dataclass(slots=True)
class _Live:
    """An episode in flight. ``future`` is the environment's work at hand, or None while the policy writes."""

    index: int
    env: gym.Env[Any, Any]
    turn: int = 0
    segment: int = 0
    future: Future[None] | None = None


@dataclass(frozen=True, slots=True)
class _Reply:
    """What a thread reports: the episode where it is over, the error where it broke, neither where it goes on."""

    key: int
    episode: Episode | None = None
    error: BaseException | None = None


@dataclass(slots=True)
class _Run:
    """The state of one call of ``run``."""

    specs: Sequence[EpisodeSpec]
    progress: Callable[[Rollout], None] | None
    executor: ThreadPoolExecutor
    replies: queue.SimpleQueue[_Reply] = field(default_factory=queue.SimpleQueue)
    live: dict[int, _Live] = field(default_factory=dict)
    results: dict[int, Rollout] = field(default_factory=dict)
    launched: int = 0
    generating: int = 0
    turns: int = 0
    generated_tokens: int = 0
    generation_s: float = 0.0
    environment_wait_s: float = 0.0


class RolloutEngine:
    """Plays episodes with one sampler and a pool of environments that lasts from run to run.

    The sampler's weights may change between runs: every run uses keys of its own and gives them all back.

    Attributes:
        stats: of the last run, an interrupted one too.
    """

    def __init__(
        self, make_env: Callable[[], gym.Env[Any, Any]], sampler: Sampler, max_in_flight: int, num_threads: int
    ) -> None:
        """Makes nothing yet.

        Args:
            make_env: gives a new environment of this project; ``env.unwrapped.core`` is its episode.
            sampler: generates the turns.
            max_in_flight: episodes at once, >= 1.
            num_threads: environments that work at once, >= 1.

        Raises:
            ValueError: a number below 1.
        """
        if max_in_flight < 1 or num_threads < 1:
            raise ValueError(f"max_in_flight and num_threads must be >= 1, got {max_in_flight} and {num_threads}")
        self.stats = RolloutStats()
        self._make_env = make_env
        self._sampler = sampler
        self._max_in_flight = max_in_flight
        self._num_threads = num_threads
        self._idle: list[gym.Env[Any, Any]] = []
        self._held: set[int] = set()
        self._next_key = 0

    def run(self, specs: Sequence[EpisodeSpec], progress: Callable[[Rollout], None] | None = None) -> list[Rollout]:
        """Plays the episodes and gives them in the order of the specs.

        An exception in an environment ends that one episode, which comes back with its error. An exception in the
        sampler or in ``progress``, and Ctrl-C, end the run: threads are told to stop, caches are given back.

        Args:
            specs: at least one.
            progress: called in this thread with each rollout as it ends, in order of ending.

        Raises:
            ValueError: there are no specs.
            RuntimeError: a run is going on already.
        """
        if not specs:
            raise ValueError("there are no episodes to play: specs is empty")
        if self._held:
            raise RuntimeError(
                f"{len(self._held)} episodes of another run are still held; an engine plays one run at a time"
            )
        while len(self._idle) < min(self._max_in_flight, len(specs)):
            self._idle.append(self._make_env())
        started = time.perf_counter()
        run = _Run(specs, progress, ThreadPoolExecutor(self._num_threads, thread_name_prefix="environment"))
        try:
            while len(run.results) < len(specs):
                self._launch(run)
                self._generate(run)
                for reply in self._replies(run):
                    self._take(run, reply)
        finally:
            self._clear(run)
            self.stats = _stats(run, time.perf_counter() - started)
        return [run.results[index] for index in range(len(specs))]

    def close(self) -> None:
        """Closes the pool's environments."""
        while self._idle:
            _close(self._idle.pop())

    def _launch(self, run: _Run) -> None:
        """Starts episodes while there are specs and room."""
        while run.launched < len(run.specs) and len(run.live) < self._max_in_flight:
            index, key = run.launched, self._next_key
            run.launched, self._next_key = index + 1, key + 1
            try:
                env = self._idle.pop() if self._idle else self._make_env()
            except Exception as error:  # replacing a broken environment may fail too; only this episode ends
                self._finish(run, index, None, error)
                continue
            live = run.live[key] = _Live(index, env)
            self._held.add(key)
            self._work(run, key, live, functools.partial(_begin, env, run.specs[index]))

    def _work(self, run: _Run, key: int, live: _Live, job: Callable[[], Episode | None]) -> None:
        """Hands an environment's work to a thread, which reports whatever comes of it."""

        def report() -> None:
            try:
                reply = _Reply(key, episode=job())
            except BaseException as error:  # the calling thread decides what to make of it
                reply = _Reply(key, error=error)
            run.replies.put(reply)

        live.future = run.executor.submit(report)

    def _generate(self, run: _Run) -> None:
        """One call of the model, where a turn is being written; finished turns go to their environments."""
        if not run.generating:
            return
        started = time.perf_counter()
        finished = self._sampler.poll()
        run.generation_s += time.perf_counter() - started
        for turn in finished:
            live = run.live[turn.key]
            run.generating -= 1
            run.turns += 1
            run.generated_tokens += len(turn.ids)
            self._work(run, turn.key, live, functools.partial(_feed, live.env, turn))

    def _replies(self, run: _Run) -> list[_Reply]:
        """What the environments have reported; waits for one where nothing is left to generate."""
        replies: list[_Reply] = []
        if not run.generating and run.live:
            started = time.perf_counter()
            replies.append(self._await_reply(run))
            run.environment_wait_s += time.perf_counter() - started
        while not run.replies.empty():
            replies.append(run.replies.get())
        return replies

    def _await_reply(self, run: _Run) -> _Reply:
        while True:
            try:
                return run.replies.get(timeout=_SILENCE_S)
            except queue.Empty:
                waiting = sorted(run.specs[live.index].task_id for live in run.live.values())
                shown = ", ".join(waiting[:5]) + (", ..." if len(waiting) > 5 else "")
                _log.warning("still waiting for the environments of %d episodes: %s", len(waiting), shown)

    def _take(self, run: _Run, reply: _Reply) -> None:
        """Goes on with an episode whose environment reported: to its next turn, or to its end."""
        live = run.live[reply.key]
        live.future = None
        error = reply.error
        if error is not None and not isinstance(error, Exception):
            raise error
        if reply.episode is None and error is None:
            core = live.env.unwrapped.core  # type: ignore[attr-defined]
            if core.max_new_tokens >= 1:
                self._submit(run, reply.key, live, core)
                return
            error = RuntimeError("the environment wants another turn but leaves no room for a token in it")
        del run.live[reply.key]
        self._release(reply.key)
        if error is None:
            self._idle.append(live.env)
        else:  # whatever state it is in, it is not played with again
            _close(live.env)
        self._finish(run, live.index, reply.episode, error)

    def _submit(self, run: _Run, key: int, live: _Live, core: Any) -> None:
        """Asks the sampler for an episode's next turn; a context that was written anew shares no cache with the old."""
        if core.segment_index != live.segment:
            live.segment = core.segment_index
            self._sampler.release(key)
        request = TurnRequest(
            key=key,
            context=core.context,
            max_new_tokens=core.max_new_tokens,
            stop=core.stop_checker(),
            seed=turn_seed(run.specs[live.index].sampling_seed, live.turn),
        )
        live.turn += 1
        self._sampler.submit(request)
        run.generating += 1

    def _finish(self, run: _Run, index: int, episode: Episode | None, error: Exception | None) -> None:
        """Records the end of an episode and reports it."""
        spec = run.specs[index]
        message = None if error is None else f"{type(error).__name__}: {error}"
        if error is not None:
            first = not any(rollout.error for rollout in run.results.values())
            _log.warning("the episode of task %s broke: %s", spec.task_id, message, exc_info=error if first else None)
        rollout = run.results[index] = Rollout(spec, episode, message)
        if run.progress is not None:
            run.progress(rollout)

    def _release(self, key: int) -> None:
        self._sampler.release(key)
        self._held.discard(key)

    def _clear(self, run: _Run) -> None:
        """Gives back what an interrupted run holds; an environment at work is closed when it comes back."""
        run.executor.shutdown(wait=False, cancel_futures=True)
        for key, live in run.live.items():
            self._release(key)
            if live.future is None:
                _close(live.env)
            else:
                live.future.add_done_callback(functools.partial(_close_after, live.env))


def turn_seed(sampling_seed: int, turn: int) -> int:
    """The seed of one turn's random stream, in [0, 2^64): a hash, so that neighbouring seeds share nothing."""
    digest = hashlib.blake2b(f"{sampling_seed}/{turn}".encode(), digest_size=8, person=b"agentr1/turn")
    return int.from_bytes(digest.digest(), "little")


def _begin(env: gym.Env[Any, Any], spec: EpisodeSpec) -> Episode | None:
    """Resets an environment; gives the episode where it is over at once."""
    env.reset(seed=spec.env_seed, options={"task_id": spec.task_id})
    core = env.unwrapped.core  # type: ignore[attr-defined]
    return core.snapshot() if core.done else None


def _feed(env: gym.Env[Any, Any], turn: SampledTurn) -> Episode | None:
    """Feeds a turn to its environment; gives the episode where that ended it.

    Raises:
        RuntimeError: the environment sees another end of the turn than the sampler, so that tokens would be lost.
    """
    core = env.unwrapped.core  # type: ignore[attr-defined]
    result = core.feed(turn.ids, turn.logprobs)
    if result.consumed != len(turn.ids) or not result.turn_ended:
        raise RuntimeError(
            f"the sampler wrote a turn of {len(turn.ids)} tokens, but the environment took {result.consumed} "
            f"{'and ended the turn' if result.turn_ended else 'and waits for more'}"
        )
    return core.snapshot() if core.done else None


def _close(env: gym.Env[Any, Any]) -> None:
    """Closes an environment that may be broken."""
    try:
        env.close()
    except Exception:
        _log.warning("an environment could not be closed", exc_info=True)


def _close_after(env: gym.Env[Any, Any], _work: Future[None]) -> None:
    _close(env)


def _stats(run: _Run, seconds: float) -> RolloutStats:
    return RolloutStats(
        episodes=len(run.results),
        failed=sum(rollout.failed for rollout in run.results.values()),
        turns=run.turns,
        generated_tokens=run.generated_tokens,
        seconds=seconds,
        generation_s=run.generation_s,
        environment_wait_s=run.environment_wait_s,
    )
