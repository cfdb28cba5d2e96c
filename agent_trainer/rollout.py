"""Many episodes in flight through one sampler, none of them waiting for another.

The calling thread polls the sampler, one model call at a time. Turns that are finished go to their environments, whose
tools run in threads (all searches of one moment as one batch); meanwhile the others keep generating, and an episode
joins again when its environment has replied. A slow tool holds up its own episode only.

What an episode says depends on its spec alone: each turn's random stream is a hash of the episode's sampling seed and
the turn's number, and results come in the order of the specs. (Batches differ with the threads' timing, and a model
rounds differently in another batch; a near tie can fall the other way. See the sampler.)
"""

from __future__ import annotations

import hashlib
import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import gymnasium as gym
from gymnasium.vector import AutoresetMode

from agent_envs.envs import AgentEnv, TurnEnv
from agent_envs.errors import ToolFailureError
from agent_envs.types import Episode
from agent_envs.vector import AgentVectorEnv, Ready
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
    """An episode in flight, in the place of that number of the vector environment."""

    index: int
    key: int
    turn: int = 0
    segment: int = 0


@dataclass(slots=True)
class _Run:
    """The state of one call of ``run``."""

    specs: Sequence[EpisodeSpec]
    progress: Callable[[Rollout], None] | None
    vector: AgentVectorEnv
    free: list[int]  # places without an episode
    broken: set[int] = field(default_factory=set)  # of these, the ones that need another environment
    live: dict[int, _Live] = field(default_factory=dict)  # by place
    places: dict[int, int] = field(default_factory=dict)  # by key
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
        self,
        make_env: Callable[[], gym.Env[Any, Any]],
        sampler: Sampler,
        max_in_flight: int,
        num_threads: int,
        deadline_s: float = 600.0,
    ) -> None:
        """Makes nothing yet.

        Args:
            make_env: gives a new environment of this project; ``env.unwrapped.core`` is its episode.
            sampler: generates the turns.
            max_in_flight: episodes at once, >= 1.
            num_threads: tools and resets at work at once, >= 1.
            deadline_s: how long one turn's tools (or one reset) may take; then the episode ends as failed.

        Raises:
            ValueError: a number out of range.
        """
        if max_in_flight < 1 or num_threads < 1 or not deadline_s > 0:
            raise ValueError(
                f"max_in_flight and num_threads must be >= 1 and deadline_s > 0, got {max_in_flight}, {num_threads} "
                f"and {deadline_s}"
            )
        self.stats = RolloutStats()
        self._make_env = make_env
        self._sampler = sampler
        self._max_in_flight = max_in_flight
        self._num_threads = num_threads
        self._deadline_s = deadline_s
        self._pool: list[AgentEnv[Any, Any]] = []
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
        started = time.perf_counter()
        run = self._begin(specs, progress)
        try:
            while len(run.results) < len(specs):
                self._launch(run)
                self._generate(run)
                for ready in self._receive(run):
                    self._take(run, ready)
        finally:
            self._clear(run)
            self.stats = _stats(run, time.perf_counter() - started)
        return [run.results[index] for index in range(len(specs))]

    def close(self) -> None:
        """Closes the pool's environments."""
        while self._pool:
            _close(self._pool.pop())

    def _begin(self, specs: Sequence[EpisodeSpec], progress: Callable[[Rollout], None] | None) -> _Run:
        while len(self._pool) < min(self._max_in_flight, len(specs)):
            self._pool.append(_face_of(self._make_env()))
        vector = AgentVectorEnv(self._pool, AutoresetMode.DISABLED, self._deadline_s, self._num_threads)
        return _Run(specs, progress, vector, free=list(range(min(len(self._pool), self._max_in_flight))))

    def _launch(self, run: _Run) -> None:
        """Starts episodes while there are specs and room."""
        while run.launched < len(run.specs) and run.free:
            index, place = run.launched, run.free.pop()
            run.launched = index + 1
            try:
                self._mend(run, place)
            except Exception as error:  # replacing a broken environment may fail too; only this episode ends
                run.free.append(place)
                self._finish(run, index, None, error)
                continue
            key, self._next_key = self._next_key, self._next_key + 1
            run.live[place], run.places[key] = _Live(index, key), place
            self._held.add(key)
            run.vector.send_reset(place, run.specs[index].env_seed, run.specs[index].task_id)

    def _mend(self, run: _Run, place: int) -> None:
        """Puts another environment in the place of a broken one."""
        if place in run.broken:
            run.vector.replace(place, _face_of(self._make_env()))
            run.broken.discard(place)

    def _generate(self, run: _Run) -> None:
        """One call of the model, where a turn is being written; finished turns go to their environments together."""
        if not run.generating:
            return
        started = time.perf_counter()
        finished = self._sampler.poll()
        run.generation_s += time.perf_counter() - started
        whole = []
        for turn in finished:
            place = run.places[turn.key]
            run.generating -= 1
            run.turns += 1
            run.generated_tokens += len(turn.ids)
            try:
                _require_whole_turn(run.vector.envs[place].core, turn)
            except Exception as error:
                self._end(run, place, None, error)
            else:
                whole.append((place, turn))
        if whole:
            run.vector.send(
                [turn.ids for _, turn in whole], [place for place, _ in whole], [turn.logprobs for _, turn in whole]
            )

    def _receive(self, run: _Run) -> list[Ready]:
        """What has come back from the environments; waits for one where nothing is left to generate."""
        if run.generating or not run.vector.under_way:
            return run.vector.recv(min_ready=0)
        started = time.perf_counter()
        while not (ready := run.vector.recv(min_ready=1, timeout_s=_SILENCE_S)):
            waiting = sorted(str(run.specs[live.index].task_id) for live in run.live.values())
            shown = ", ".join(waiting[:5]) + (", ..." if len(waiting) > 5 else "")
            _log.warning("still waiting for the environments of %d episodes: %s", len(waiting), shown)
        run.environment_wait_s += time.perf_counter() - started
        return ready

    def _take(self, run: _Run, ready: Ready) -> None:
        """Goes on with an episode whose environment reported: to its next turn, or to its end."""
        place, error = ready.env_id, ready.error
        live, core = run.live[place], run.vector.envs[place].core
        if error is None and ready.observation is None:
            error = ToolFailureError(f"the environment's own code did not come back within {self._deadline_s} s")
        if error is not None:
            self._end(run, place, None, error)
        elif core.done:
            self._end(run, place, core.snapshot(), None)
        elif core.max_new_tokens < 1:
            self._end(run, place, None, RuntimeError("the environment wants another turn but leaves no room for it"))
        else:
            self._submit(run, live, core)

    def _submit(self, run: _Run, live: _Live, core: Any) -> None:
        """Asks the sampler for an episode's next turn; a context that was written anew shares no cache with the old."""
        if core.segment_index != live.segment:
            live.segment = core.segment_index
            self._sampler.release(live.key)
        request = TurnRequest(
            key=live.key,
            context=core.context,
            max_new_tokens=core.max_new_tokens,
            stop=core.stop_checker(),
            seed=turn_seed(run.specs[live.index].sampling_seed, live.turn),
        )
        live.turn += 1
        self._sampler.submit(request)
        run.generating += 1

    def _end(self, run: _Run, place: int, episode: Episode | None, error: Exception | None) -> None:
        """Makes an episode's place free and records what came of it; a broken environment is not played with again."""
        live = run.live.pop(place)
        del run.places[live.key]
        self._release(live.key)
        run.free.append(place)
        if error is not None:
            run.broken.add(place)
            _close(run.vector.envs[place])
        self._finish(run, live.index, episode, error)

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
        """Gives back what a run holds; environments that an interrupted one leaves at work are closed."""
        for live in run.live.values():
            self._release(live.key)
        envs = run.vector.release()
        for place in run.live:
            _close(envs[place])
        lost = run.broken.union(run.live)
        self._pool = [env for place, env in enumerate(envs) if place not in lost]


def turn_seed(sampling_seed: int, turn: int) -> int:
    """The seed of one turn's random stream, in [0, 2^64): a hash, so that neighbouring seeds share nothing."""
    digest = hashlib.blake2b(f"{sampling_seed}/{turn}".encode(), digest_size=8, person=b"agentr1/turn")
    return int.from_bytes(digest.digest(), "little")


class _WholeTurns(TurnEnv):
    """A face that takes whole turns and makes no observations, on the episode of an environment of any level."""

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        super().__init__(env.unwrapped.core, observe=False)  # type: ignore[attr-defined]
        self._env = env

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        """Resets the environment itself, with whatever wraps it."""
        _, info = self._env.reset(seed=seed, options=options)
        return "", info

    def renewed(self) -> TurnEnv:  # type: ignore[override]
        """A face on another core: this one's may be at work for good."""
        return TurnEnv(self.core.renewed(), observe=False)

    def close(self) -> None:
        """Closes the environment itself."""
        self._env.close()


def _face_of(env: gym.Env[Any, Any]) -> AgentEnv[Any, Any]:
    inner: Any = env.unwrapped
    return _WholeTurns(env) if isinstance(inner, AgentEnv) else inner


def _require_whole_turn(core: Any, turn: SampledTurn) -> None:
    """Refuses a turn whose tokens would be lost or never answered.

    Raises:
        RuntimeError: the environment sees another end of the turn than the sampler.
    """
    if not core.is_whole_turn(turn.ids):
        taken = core.turn_length(turn.ids)
        raise RuntimeError(
            f"the sampler wrote a turn of {len(turn.ids)} tokens, but the environment takes {taken} "
            f"{'and ends the turn' if taken < len(turn.ids) else 'and waits for more'}"
        )


def _close(env: AgentEnv[Any, Any]) -> None:
    """Closes an environment that may be broken."""
    try:
        env.close()
    except Exception:
        _log.warning("an environment could not be closed", exc_info=True)


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
