"""Environments in processes of their own, for tools that need the CPU: a ``RemoteEnv`` here stands for one of them.

Each worker process holds its share of the environments in a vector of its own, so that its searches are batched and its
faults stay where they are, too. A worker that dies fails the episodes it was playing and is started again at the next
reset. Workers end with the process that started them, however that ends.
"""

from __future__ import annotations

import contextlib
import itertools
import multiprocessing
import signal
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

from gymnasium.vector import AutoresetMode

from agent_envs.envs import AgentEnv
from agent_envs.errors import ToolFailureError
from agent_envs.types import Episode
from agent_envs.vector.env import AgentVectorEnv, Ready

_NAP_S = 0.002  # how long a worker waits for its tools before it looks for new requests
_GRACE_S = 3.0  # how long a worker may take to close its environments
_DIED = "the worker process of this episode has died; reset begins a new one"


@dataclass(frozen=True, slots=True)
class _Ask:
    """A request to a worker: ``what`` is "step", "reset" or "episode"."""

    ticket: int
    what: str
    env: int
    arguments: tuple[Any, ...] = ()


@dataclass(frozen=True, slots=True)
class _Told:
    """A worker's reply: a value, or the error in its place."""

    ticket: int
    value: Any = None
    error: Exception | None = None


class Worker:
    """A process with some environments."""

    def __init__(self, made_with: Mapping[str, Any], num_envs: int, deadline_s: float, max_threads: int | None) -> None:
        """Starts nothing yet. ``made_with`` are the arguments of ``make_env``."""
        self._arguments = (dict(made_with), num_envs, deadline_s, max_threads)
        self._guard = threading.Lock()
        self._tickets = itertools.count()
        self._waiting: dict[int, Future[Any]] = {}
        self._process: Any = None
        self._connection: Connection | None = None
        self._closed = False
        self.starts = 0  # processes started so far: an episode is lost when the number has risen

    @property
    def pid(self) -> int | None:
        """Of the process, where one runs."""
        return None if self._process is None else self._process.pid

    def ask(self, what: str, env: int, *arguments: Any) -> Any:
        """Sends a request and waits for the reply; starts the process where none runs.

        Raises:
            ToolFailureError: the worker died, or is closed.
        """
        future: Future[Any] = Future()
        with self._guard:
            if self._closed:
                raise ToolFailureError("the environment's worker process is closed")
            if self._connection is None:
                if what != "reset":
                    raise ToolFailureError(_DIED)
                self._connection = self._start()
            ticket = next(self._tickets)
            self._waiting[ticket] = future
            with contextlib.suppress(OSError):  # it died a moment ago: the reader settles every future
                self._connection.send(_Ask(ticket, what, env, arguments))
        return future.result()

    def close(self) -> None:
        """Ends the process and waits for it: politely, then not."""
        with self._guard:
            self._closed = True
            connection, process = self._connection, self._process
        if connection is None:
            return
        with contextlib.suppress(OSError):
            connection.send(None)
        for end in (lambda: None, process.terminate, process.kill):
            end()
            process.join(_GRACE_S)
            if not process.is_alive():
                break
        self._lose("the environment's worker process is closed")

    def _start(self) -> Connection:
        context = multiprocessing.get_context("spawn")  # a fork would copy threads' locks as they stand
        connection, theirs = context.Pipe()
        self._process = context.Process(target=_work, args=(theirs, *self._arguments), daemon=True)
        self._process.start()
        theirs.close()
        self.starts += 1
        threading.Thread(target=self._read, args=(connection,), name="worker-replies", daemon=True).start()
        return connection

    def _read(self, connection: Connection) -> None:
        while True:
            try:
                told: _Told = connection.recv()
            except (EOFError, OSError):
                self._process.join(_GRACE_S)
                self._lose(f"the worker process of this episode died (exit code {self._process.exitcode})")
                return
            with self._guard:
                future = self._waiting.pop(told.ticket, None)
            if future is not None:
                if told.error is None:
                    future.set_result(told.value)
                else:
                    future.set_exception(told.error)

    def _lose(self, why: str) -> None:
        with self._guard:
            waiting, self._waiting = self._waiting, {}
            if self._connection is not None:
                self._connection.close()
            self._connection = None
        for future in waiting.values():
            future.set_exception(ToolFailureError(why))


class _RemoteCore:
    """As much of an episode as a vector environment asks for."""

    pending = None

    def __init__(self) -> None:
        self.done = True

    def append(self, _token_id: int) -> bool:
        """Never: each token goes to the worker."""
        return False

    def abort(self, _why: str, _reason: Any) -> None:
        """The episode is lost with its worker."""
        self.done = True


class RemoteEnv:
    """Stands for an environment in a worker; offers what ``AgentVectorEnv`` asks of one."""

    may_block = True

    def __init__(self, worker: Worker, index: int, like: AgentEnv[Any, Any]) -> None:
        """``like`` is an environment of the same options in this process, which is not played."""
        self.observation_space, self.action_space = like.observation_space, like.action_space
        self.metadata, self.render_mode = like.metadata, like.render_mode
        self.task = like.task
        self.core = _RemoteCore()
        self._like = like
        self._worker = worker
        self._index = index
        self._ready: Ready | None = None
        self._begun_in = 0

    @property
    def episode(self) -> Episode:
        """The record of the current episode, frozen."""
        episode: Episode = self._worker.ask("episode", self._index)
        return episode

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begins an episode in the worker."""
        observation, info = self._worker.ask("reset", self._index, seed, options)
        self.core.done, self._begun_in = False, self._worker.starts
        return observation, info

    def check_action(self, action: Any) -> None:
        """As far as it can be told without the episode."""
        self._like.check_action(action)

    def begin_step(self, action: Any, logprobs: Sequence[float] | None = None) -> None:
        """Plays the whole step."""
        if self._begun_in != self._worker.starts:
            raise ToolFailureError(_DIED)
        self._ready = self._worker.ask("step", self._index, action, logprobs)

    def finish_step(self, _results: Sequence[Any] = ()) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """What the worker gave."""
        ready = self._ready
        if ready is None:
            raise ToolFailureError("no step has begun")
        self.core.done = ready.terminated or ready.truncated
        return ready.observation, ready.reward, ready.terminated, ready.truncated, ready.info

    def fail_step(self, why: str, reason: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """The end of an episode whose worker cannot be reached."""
        self.core.abort(why, reason)
        return None, 0.0, False, True, {"error": why, "reason": str(reason)}

    def renewed(self) -> RemoteEnv:
        """The same place in the worker, whose next reset takes it over."""
        return RemoteEnv(self._worker, self._index, self._like)

    def close(self) -> None:
        """Ends the worker, with all its environments."""
        self._worker.close()


def remote_envs(
    like: AgentEnv[Any, Any], num_envs: int, workers: int, deadline_s: float, max_threads: int | None
) -> list[RemoteEnv]:
    """Environments like one of this process, spread evenly over so many worker processes."""
    assert like.made_with is not None, "make_env says what the environment is made with"
    shares = [len(range(number, num_envs, workers)) for number in range(workers)]
    made = [Worker(like.made_with, share, deadline_s, max_threads) for share in shares]
    return [RemoteEnv(made[place % workers], place // workers, like) for place in range(num_envs)]


def _work(
    connection: Connection, made_with: dict[str, Any], num_envs: int, deadline_s: float, max_threads: int | None
) -> None:
    """A worker's life: it ends when told to, or when nobody is at the other end."""
    from agent_envs.registration import make_env

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, which then says what to do
    vector = AgentVectorEnv(
        [make_env(**made_with) for _ in range(num_envs)], AutoresetMode.DISABLED, deadline_s, max_threads
    )
    tickets: dict[int, int] = {}
    try:
        while True:
            asked = _received(connection, wait=not vector.under_way)
            if None in asked:
                return
            for ask in asked:
                _answer(connection, vector, ask, tickets)
            for ready in vector.recv(min_ready=1, timeout_s=_NAP_S):
                connection.send(_Told(tickets.pop(ready.env_id), ready))
    except (EOFError, OSError):
        return
    finally:
        vector.close()


def _received(connection: Connection, wait: bool) -> list[_Ask | None]:
    """All requests that have come; the first one is waited for where nothing else is to do."""
    asked: list[_Ask | None] = [connection.recv()] if wait else []
    while connection.poll(0):
        asked.append(connection.recv())
    return asked


def _answer(connection: Connection, vector: AgentVectorEnv, ask: _Ask | None, tickets: dict[int, int]) -> None:
    assert ask is not None, "None ends the worker"
    try:
        if ask.what == "step":
            action, logprobs = ask.arguments
            vector.send([action], [ask.env], [logprobs])
            tickets[ask.env] = ask.ticket
            return
        if ask.what == "reset":
            seed, options = ask.arguments
            vector.drop(ask.env)
            tickets.pop(ask.env, None)
            value: Any = vector.envs[ask.env].reset(seed=seed, options=options)
        else:
            value = vector.envs[ask.env].episode
        connection.send(_Told(ask.ticket, value))
    except (EOFError, OSError):
        raise
    except Exception as error:  # the caller's to deal with
        connection.send(_Told(ask.ticket, error=error))
