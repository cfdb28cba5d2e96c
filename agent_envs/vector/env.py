"""Many episodes side by side: as a Gymnasium vector environment, or as a set in which nobody waits for the slowest."""

from __future__ import annotations

import functools
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv

from agent_envs.envs import AgentEnv
from agent_envs.errors import ConfigError, EpisodeOverError, InvalidActionError
from agent_envs.types import StopReason
from agent_envs.vector.dispatch import Done, Errand, Request, ToolDispatcher
from agent_envs.vector.spaces import Batcher, batched

Step = tuple[Any, float, bool, bool, dict[str, Any]]

_LATE = "the turn's tools did not answer before the episode's deadline"


@dataclass(frozen=True, slots=True)
class Ready:
    """A step or a reset that has come back from ``recv``: what the environment's own ``step`` gives.

    Attributes:
        env_id: which environment.
        observation: of a reset that failed, None.
        reward: 0 for a reset.
        terminated: the task's own end.
        truncated: a budget or a failure ended the episode.
        info: of the step or reset.
        error: what broke the environment itself (a tool's failure is the episode's), or None.
    """

    env_id: int
    observation: Any
    reward: float
    terminated: bool
    truncated: bool
    info: dict[str, Any]
    error: Exception | None = None


class AgentVectorEnv(VectorEnv[Any, Any, Any]):
    """A set of environments of one kind whose tools run at the same time, all searches of a step as one batch.

    ``reset`` and ``step`` are Gymnasium's. ``send`` and ``recv`` drive any of the environments at their own pace. One
    that crashes, hangs or gives garbage ends its own episode as truncated, with ``info["error"]``, and no other's.

    Attributes:
        envs: the environments; a trainer reads ``envs[i].core``.
    """

    def __init__(
        self,
        envs: Sequence[AgentEnv[Any, Any]],
        autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
        deadline_s: float = 60.0,
        max_threads: int | None = None,
    ) -> None:
        """Takes the environments as its own.

        Args:
            envs: at least one, of equal spaces.
            autoreset_mode: what becomes of an episode that is over: see Gymnasium's ``AutoresetMode``.
            deadline_s: how long one turn's tools may take in all; then the episode ends as failed.
            max_threads: tool calls at once; None for as many as there are.

        Raises:
            ConfigError: no environment, unequal spaces, or a value out of range.
        """
        if not envs:
            raise ConfigError("a vector environment holds at least one environment; num_envs is 0")
        if not deadline_s > 0 or (max_threads is not None and max_threads < 1):
            raise ConfigError(f"deadline_s is > 0 and max_threads >= 1, not {deadline_s} and {max_threads}")
        first = envs[0]
        if any(
            env.observation_space != first.observation_space or env.action_space != first.action_space for env in envs
        ):
            raise ConfigError("the environments of a vector need equal spaces: the same level, tokenizer and budgets")
        self.envs = list(envs)
        self.num_envs = len(envs)
        self.autoreset_mode = AutoresetMode(autoreset_mode)
        self.metadata = {**first.metadata, "autoreset_mode": self.autoreset_mode}
        self.render_mode = first.render_mode
        self.single_observation_space, self.single_action_space = first.observation_space, first.action_space
        self.observation_space = batched(first.observation_space, self.num_envs)
        self.action_space = batched(first.action_space, self.num_envs)
        self._batcher = Batcher(first.observation_space, self.num_envs)
        self._dispatcher = ToolDispatcher(deadline_s, max_threads)
        self._ready: list[Ready] = []
        self._sent: set[int] = set()
        self._over = np.zeros(self.num_envs, np.bool_)

    # Gymnasium's face

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Begins episodes in all environments, or in those of ``options["reset_mask"]``.

        Args:
            seed: one per environment (equal ones play the same task); a single one counts up from environment to
                environment.
            options: ``reset_mask``, bool ``[N]``; ``task_id``, one for all or a list of one per environment.

        Raises:
            InvalidActionError: steps are under way; ``recv`` them first.
            ValueError: a list or mask of the wrong length or type.
        """
        options = dict(options or {})
        mask = _mask(options.pop("reset_mask", None), self.num_envs)
        seeds = _per_env("seed", _counted(seed, self.num_envs), self.num_envs)
        task_ids = _per_env("task_id", options.pop("task_id", None), self.num_envs)
        if options:
            raise ConfigError(f'unknown reset options {sorted(options)}; known: "task_id", "reset_mask"')
        if self._sent:
            raise InvalidActionError(f"{len(self._sent)} steps are under way: recv() them before reset()")
        infos: dict[str, Any] = {}
        begun = self._reset_many({index: (seeds[index], task_ids[index]) for index in np.flatnonzero(mask).tolist()})
        for index, (observation, info) in begun.items():
            self._batcher.put(index, observation)
            infos = self._add_info(infos, info, index)
        return self._batcher.take(), infos

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """One step of every environment: observations, rewards ``[N]``, terminations, truncations, infos.

        Raises:
            InvalidActionError: an action is wrong; no environment has been stepped then.
            EpisodeOverError: with autoreset disabled, an episode is over, or none has begun.
        """
        given = list(actions)
        if len(given) != self.num_envs:
            raise InvalidActionError(f"{len(given)} actions came for {self.num_envs} environments")
        renewed = set(np.flatnonzero(self._over).tolist() if self.autoreset_mode is AutoresetMode.NEXT_STEP else ())
        rest = [index for index in range(self.num_envs) if index not in renewed]
        for index in rest:
            self._require_free(index)
            self.envs[index].check_action(given[index])
        stepped = [index for index in rest if not self._append(index, given[index])]
        self._send(stepped, [given[index] for index in stepped], {})
        steps: dict[int, Step] = {index: self._renewed(index) for index in renewed}
        for ready in self.recv(min_ready=len(stepped)):
            steps[ready.env_id] = _step_of(ready)
        return self._gathered(steps)

    def close_extras(self, **_kwargs: Any) -> None:
        """Drops what is under way and closes the environments."""
        self._dispatcher.close()
        self._sent.clear()
        for env in self.envs:
            env.close()

    def release(self) -> list[AgentEnv[Any, Any]]:
        """Ends the set without closing its environments, and gives them back."""
        self._dispatcher.close()
        self._sent.clear()
        self.closed = True
        return list(self.envs)

    # A set in which nobody waits

    def send(
        self,
        actions: Iterable[Any],
        env_ids: Sequence[int] | None = None,
        logprobs: Sequence[Sequence[float] | None] | None = None,
    ) -> None:
        """Begins steps; their tools run while the caller does something else.

        Args:
            actions: one per environment.
            env_ids: which environments; all of them by default.
            logprobs: the sampler's log-probabilities of each action's ids, where actions are ids of whole turns.

        Raises:
            InvalidActionError: an action is wrong, or an environment is still at work; none has been stepped then.
            EpisodeOverError: an episode is over, or hasn't begun.
        """
        ids = list(range(self.num_envs) if env_ids is None else env_ids)
        given = list(actions)
        for index, action in zip(ids, given, strict=True):
            self._require_free(index)
            self.envs[index].check_action(action)
        if len(set(ids)) != len(ids):
            raise InvalidActionError(f"an environment takes one action at a time; env_ids names one twice: {ids}")
        self._send(ids, given, {} if logprobs is None else dict(zip(ids, logprobs, strict=True)))

    def recv(self, min_ready: int = 1, timeout_s: float | None = None) -> list[Ready]:
        """Steps that have come back: waits until there are so many (or all that were sent), or for so long."""
        wanted = min(min_ready, len(self._sent))
        until = None if timeout_s is None else time.monotonic() + timeout_s
        while True:  # what has come back is finished while the rest is still at work
            left_s = None if until is None else max(0.0, until - time.monotonic())
            came = self._dispatcher.wait(int(len(self._ready) < wanted), left_s)
            self._ready += [self._finish(done) for done in came]
            if not came or len(self._ready) >= wanted:
                break
        ready, self._ready = self._ready, []
        self._sent.difference_update(step.env_id for step in ready)
        return ready

    def send_reset(self, env_id: int, seed: int | None = None, task_id: str | None = None) -> None:
        """Begins an episode in one environment, whatever the others do; ``recv`` gives its first observation.

        A step under way in it is dropped.
        """
        self.drop(env_id)
        self._sent.add(env_id)
        self._over[env_id] = False
        env = self.envs[env_id]  # as it is now: what is dropped must not reach the environment that takes its place

        def begin() -> Ready:
            try:
                observation, info = _begun(env, seed, task_id)
            except Exception as error:  # the task's own code; this episode alone pays for it
                return Ready(env_id, None, 0.0, False, True, {"error": f"{type(error).__name__}: {error}"}, error)
            return Ready(env_id, observation, 0.0, False, False, info)

        self._dispatcher.submit([Errand(env_id, begin)])

    def drop(self, env_id: int) -> None:
        """Forgets the step or reset that is under way in an environment, which has to be reset then.

        The environment is replaced by a copy, since its own code may still be at work.
        """
        self._dispatcher.forget(env_id)
        if env_id in self._sent and not any(ready.env_id == env_id for ready in self._ready):
            self.envs[env_id] = self.envs[env_id].renewed()
        self._ready = [ready for ready in self._ready if ready.env_id != env_id]
        self._sent.discard(env_id)

    def replace(self, env_id: int, env: AgentEnv[Any, Any]) -> None:
        """Puts another environment of the same kind in the place of a broken one, which is left to the caller."""
        self.drop(env_id)
        self.envs[env_id] = env
        self._over[env_id] = False

    @property
    def under_way(self) -> int:
        """Steps that were sent and have not been received."""
        return len(self._sent)

    # Inside

    def _send(self, ids: Sequence[int], actions: Sequence[Any], logprobs: Mapping[int, Sequence[float] | None]) -> None:
        self._sent.update(ids)
        requests = (self._begin(index, action, logprobs.get(index)) for index, action in zip(ids, actions, strict=True))
        self._dispatcher.submit(request for request in requests if request is not None)

    def _step_whole(self, env: AgentEnv[Any, Any], index: int, action: Any, logprobs: Sequence[float] | None) -> Ready:
        """A step from beginning to end, for a thread: the task's own code may wait for something."""
        try:
            calls = env.begin_step(action, logprobs)
            return Ready(index, *env.finish_step(env.core.run_tools(calls) if calls else ()))
        except Exception as error:  # the task's own code; this episode alone pays for it
            return self._failed(env, index, error)

    def _append(self, index: int, action: Any) -> bool:
        """Takes a token that cannot end a turn, without the cost of a whole step; False for all other actions."""
        if not self._batcher.grows or not self.envs[index].core.append(int(action)):
            return False
        self._batcher.grow(index, int(action))
        return True

    def _reset_many(self, wanted: Mapping[int, tuple[int | None, str | None]]) -> dict[int, tuple[Any, dict[str, Any]]]:
        """Begins episodes; in threads, at the same time, where the environments' own code may wait for something."""
        if not any(self.envs[index].may_block for index in wanted):
            return {index: self._reset_one(index, *how) for index, how in wanted.items()}
        for index, how in wanted.items():
            self.send_reset(index, *how)
        begun = {ready.env_id: ready for ready in self.recv(min_ready=len(wanted))}
        for ready in begun.values():
            if ready.error is not None:
                raise ready.error
        return {index: (begun[index].observation, begun[index].info) for index in wanted}

    def _reset_one(self, index: int, seed: int | None, task_id: str | None) -> tuple[Any, dict[str, Any]]:
        self._over[index] = False
        return _begun(self.envs[index], seed, task_id)

    def _require_free(self, index: int) -> None:
        if index in self._sent:
            raise InvalidActionError(f"environment {index} is still at work: recv() its step before the next one")
        if self.envs[index].core.done:
            raise EpisodeOverError(f"the episode of environment {index} is over or has not begun: reset it first")

    def _begin(self, index: int, action: Any, logprobs: Sequence[float] | None) -> Request | Errand | None:
        """Writes an action; gives the calls to run, or puts the step among the ready ones."""
        env = self.envs[index]
        if env.may_block:
            return Errand(index, functools.partial(self._step_whole, env, index, action, logprobs))
        try:
            calls = env.begin_step(action, logprobs)
            if calls:
                return Request(index, env.core.executor, calls)
            self._ready.append(Ready(index, *env.finish_step()))
        except Exception as error:  # the task's own code; this episode alone pays for it
            self._ready.append(self._failed(env, index, error))
        return None

    def _finish(self, done: Done) -> Ready:
        index, env = done.key, self.envs[done.key]
        if isinstance(done.error, Exception):
            return self._failed(env, index, done.error)
        if done.error is not None:
            raise done.error
        if isinstance(done.value, Ready):
            return done.value
        try:
            if not done.expired:
                return Ready(index, *env.finish_step(done.results))
            if env.may_block or env.core.pending is None:  # its own code hangs: what it still does must reach nobody
                self.envs[index] = env.renewed()
                return Ready(index, None, 0.0, False, True, {"error": _LATE, "reason": str(StopReason.WALL_CLOCK)})
            return Ready(index, *env.fail_step(_LATE, StopReason.WALL_CLOCK))
        except Exception as error:  # the task's own code; this episode alone pays for it
            return self._failed(env, index, error)

    def _failed(self, env: AgentEnv[Any, Any], index: int, error: Exception) -> Ready:
        why = f"the environment broke ({type(error).__name__}: {error})"
        try:
            return Ready(index, *env.fail_step(why, StopReason.TOOL_FAILURE), error)
        except Exception:  # no episode has begun, or its end breaks the task's code too
            info = {"error": why, "reason": str(StopReason.TOOL_FAILURE)}
            return Ready(index, None, 0.0, False, True, info, error)

    def _renewed(self, index: int) -> Step:
        observation, info = self._reset_one(index, None, None)
        return observation, 0.0, False, False, info

    def _gathered(self, steps: Mapping[int, Step]) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """The steps side by side, with the autoreset of ``SAME_STEP``."""
        rewards = np.zeros(self.num_envs, np.float64)
        terminated, truncated = np.zeros(self.num_envs, np.bool_), np.zeros(self.num_envs, np.bool_)
        infos: dict[str, Any] = {}
        for index in sorted(steps):
            observation, rewards[index], terminated[index], truncated[index], info = steps[index]
            self._over[index] = terminated[index] or truncated[index]
            if self._over[index] and self.autoreset_mode is AutoresetMode.SAME_STEP:
                infos = self._add_info(infos, {"final_obs": observation, "final_info": info}, index)
                observation, info = self._reset_one(index, None, None)
            self._batcher.put(index, observation)
            infos = self._add_info(infos, info, index)
        return self._batcher.take(), rewards, terminated, truncated, infos


def _begun(env: AgentEnv[Any, Any], seed: int | None, task_id: str | None) -> tuple[Any, dict[str, Any]]:
    return env.reset(seed=seed, options=None if task_id is None else {"task_id": task_id})


def _step_of(ready: Ready) -> Step:
    return ready.observation, ready.reward, ready.terminated, ready.truncated, ready.info


def _mask(mask: Any, num_envs: int) -> np.ndarray[Any, np.dtype[np.bool_]]:
    if mask is None:
        return np.ones(num_envs, np.bool_)
    if not isinstance(mask, np.ndarray) or mask.shape != (num_envs,) or mask.dtype != np.bool_ or not mask.any():
        raise ValueError(
            f'options["reset_mask"] is a bool array of shape ({num_envs},) with a True in it, not {mask!r}'
        )
    return mask


def _counted(seed: Any, num_envs: int) -> Any:
    return [int(seed) + index for index in range(num_envs)] if isinstance(seed, int | np.integer) else seed


def _per_env(name: str, values: Any, num_envs: int) -> list[Any]:
    """One value per environment: those of a list, or the single one for each."""
    if isinstance(values, str) or not isinstance(values, Sequence):
        return [values] * num_envs
    if len(values) != num_envs:
        raise ValueError(f"{len(values)} values of {name} came for {num_envs} environments")
    return list(values)
