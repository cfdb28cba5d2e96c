"""Tool calls of many episodes at once: side by side, searches of one step as one batch, none waiting for another.

An episode whose tools fail or hang costs the others nothing: a batch that fails is tried again one episode at a time,
and what runs past its deadline is given up, with its thread.
"""

from __future__ import annotations

import math
import queue
import time
import weakref
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from agent_envs.tools.base import Tool
from agent_envs.tools.executor import ToolExecutor, results_of
from agent_envs.tools.running import Job
from agent_envs.types import EventKind, ToolCall, ToolResult
from agent_envs.vector.pool import DaemonPool, Piece


@dataclass(frozen=True, slots=True)
class Request:
    """The checked calls of one episode's turn.

    Attributes:
        key: names the episode; one request of a key is in flight at a time.
        executor: holds the episode's tools.
        calls: at least one.
    """

    key: int
    executor: ToolExecutor
    calls: tuple[ToolCall, ...]


@dataclass(frozen=True, slots=True)
class Errand:
    """Any work for one episode that may take its time, such as a reset; ``work`` catches what it can."""

    key: int
    work: Callable[[], Any]


@dataclass(frozen=True, slots=True)
class Done:
    """What came of a request or an errand.

    Attributes:
        key: of the episode.
        expired: the episode's own deadline passed first.
        results: of a request, one per call.
        value: of an errand.
        error: that an errand let through.
    """

    key: int
    expired: bool = False
    results: tuple[ToolResult, ...] = ()
    value: Any = None
    error: BaseException | None = None


@dataclass(slots=True, eq=False)
class _Flight:
    """A request under way."""

    request: Request | Errand
    deadline: float  # of the episode's turn
    work: _Work | None = None


@dataclass(slots=True, eq=False)
class _Work:
    """What a thread does for one flight, or for several that share a batch.

    ``job`` is what runs and ``shares`` has each flight's part of it, in order; without a job, the executor runs.
    """

    flights: list[_Flight]
    expires: float
    job: Job | None = None
    done: Done | None = None
    piece: Piece | None = None
    shares: list[Job] = field(default_factory=list)


class ToolDispatcher:
    """Runs requests; used from one thread."""

    def __init__(self, deadline_s: float, max_threads: int | None = None) -> None:
        """Starts nothing yet.

        Args:
            deadline_s: how long one turn's calls may take in all, from when they are submitted.
            max_threads: calls at once; None for no limit.
        """
        self._deadline_s = deadline_s
        self._pool = DaemonPool("episode-tools", max_threads)
        self._flights: dict[int, _Flight] = {}
        self._alarm = math.inf  # before it, nothing expires
        self._finished: queue.SimpleQueue[_Work] = queue.SimpleQueue()
        weakref.finalize(self, self._pool.close)  # for those who forget to

    @property
    def in_flight(self) -> int:
        """Requests that have not come back."""
        return len(self._flights)

    @property
    def num_threads(self) -> int:
        """Threads that take work; those lost to hanging tools don't count."""
        return self._pool.num_threads

    def submit(self, requests: Iterable[Request | Errand]) -> None:
        """Starts requests as they come; at the end, the batch calls of one tool go to it together.

        Raises:
            ValueError: a request of the same key is in flight.
        """
        batches: dict[Tool, list[tuple[_Flight, Job]]] = {}
        for request in requests:
            if request.key in self._flights:
                raise ValueError(f"the calls of episode {request.key} are in flight already")
            flight = self._flights[request.key] = _Flight(request, time.monotonic() + self._deadline_s)
            self._alarm = min(self._alarm, flight.deadline)
            job = None if isinstance(request, Errand) else _only_job(request)
            if job is None:
                self._start_whole(flight)
            elif job.tool.batch is not None and job.tool.concurrent:
                batches.setdefault(job.tool, []).append((flight, job))
            else:
                self._start_jobs([(flight, job)], self._seconds(job.tool))
        for tool, members in batches.items():
            # A shared batch has half the time, so that its episodes can be tried one by one in the other half.
            self._start_jobs(members, self._seconds(tool) / (1 if len(members) == 1 else 2))

    def wait(self, min_ready: int, timeout_s: float | None = None) -> list[Done]:
        """What has come back: waits for so many, or until nothing is in flight, or until the time is over."""
        ready: list[Done] = []
        until = None if timeout_s is None else time.monotonic() + timeout_s
        while True:
            while not self._finished.empty():
                ready += self._take(self._finished.get())
            now = time.monotonic()
            if now >= self._alarm:
                ready += self._expire(now)
            if len(ready) >= min_ready or not self._flights or (until is not None and now >= until):
                return ready
            alarm = self._alarm if until is None else min(self._alarm, until)
            try:
                ready += self._take(self._finished.get(timeout=max(0.0, alarm - now)))
            except queue.Empty:
                continue

    def forget(self, key: int) -> None:
        """Drops a request; whatever it still gives goes nowhere."""
        flight = self._flights.pop(key, None)
        if flight is not None:
            self._give_up(flight)

    def close(self) -> None:
        """Drops everything and lets the threads end."""
        for key in list(self._flights):
            self.forget(key)
        self._pool.close()

    def _start_whole(self, flight: _Flight) -> None:
        """An errand, or several jobs of one episode: its executor knows their order and their deadlines."""
        work = flight.work = _Work([flight], flight.deadline)
        request = flight.request

        def run() -> None:
            try:
                if isinstance(request, Errand):
                    work.done = Done(request.key, value=request.work())
                else:
                    work.done = Done(request.key, results=request.executor.run(request.calls))
            except BaseException as error:  # the caller of ``wait`` decides what to make of it
                work.done = Done(request.key, error=error)

        self._start(work, run)

    def _start_jobs(self, members: Sequence[tuple[_Flight, Job]], seconds: float) -> None:
        """One call, or the batch calls of one tool from several episodes as one job."""
        flights, shares = [flight for flight, _ in members], [job for _, job in members]
        job = shares[0] if len(members) == 1 else _merged(shares)
        job.deadline = time.monotonic() + seconds
        self._alarm = min(self._alarm, job.deadline)
        work = _Work(flights, job.deadline, job, shares=shares)
        for flight in flights:
            flight.work = work
        self._start(work, job.work)

    def _seconds(self, tool: Tool) -> float:
        return self._deadline_s if tool.timeout_s is None else min(tool.timeout_s, self._deadline_s)

    def _start(self, work: _Work, run: Callable[[], None]) -> None:
        def report() -> None:
            run()
            self._finished.put(work)

        try:
            work.piece = self._pool.submit(report)
        except RuntimeError as error:  # the system has no thread at all
            if work.job is None:
                work.done = Done(work.flights[0].request.key, error=error)
            else:
                work.job.give_up(f"was not run ({error})")
            self._finished.put(work)

    def _take(self, work: _Work) -> list[Done]:
        """The results of finished work; a failed batch is started again, one episode at a time."""
        flights = [flight for flight in work.flights if self._is_current(flight, work)]
        if work.job is None:
            assert work.done is not None, "a thread reports when it is done"
            return [self._land(flight, work.done) for flight in flights]
        if len(work.flights) > 1 and any(result.kind is EventKind.TOOL_FAILURE for result in work.job.results):
            self._split(work, flights)
            return []
        _share_out(work.job, work.shares)
        shares = {id(flight): share for flight, share in zip(work.flights, work.shares, strict=True)}
        return [self._land(flight, _results(flight, shares[id(flight)])) for flight in flights]

    def _expire(self, now: float) -> list[Done]:
        ready: list[Done] = []
        for flight in list(self._flights.values()):
            work = flight.work
            if flight.request.key not in self._flights or work is None or flight.work is not work:
                continue
            if now >= flight.deadline:
                self._give_up(flight)
                ready.append(self._land(flight, Done(flight.request.key, expired=True)))
            elif work.job is not None and now >= work.expires:
                work.job.give_up("did not answer in time")
                self._give_up(flight)
                ready += self._take(work)
        self._alarm = min((min(each.deadline, _expiry(each)) for each in self._flights.values()), default=math.inf)
        return ready

    def _split(self, work: _Work, flights: Sequence[_Flight]) -> None:
        for flight, share in zip(work.flights, work.shares, strict=True):
            if flight in flights:
                alone = Job(share.tool)
                for position, arguments in zip(share.positions, share.arguments, strict=True):
                    alone.add(position, arguments)
                self._start_jobs([(flight, alone)], self._seconds(share.tool) / 2)

    def _give_up(self, flight: _Flight) -> None:
        work = flight.work
        if work is None or work.piece is None:
            return
        others = [other for other in work.flights if other is not flight and self._is_current(other, work)]
        if work.job is not None and not others:
            work.job.give_up("did not answer in time")
        if not others or (work.job is not None and time.monotonic() >= work.expires):
            self._pool.give_up(work.piece)

    def _land(self, flight: _Flight, done: Done) -> Done:
        del self._flights[flight.request.key]
        return done

    def _is_current(self, flight: _Flight, work: _Work) -> bool:
        return self._flights.get(flight.request.key) is flight and flight.work is work


def _expiry(flight: _Flight) -> float:
    return flight.deadline if flight.work is None or flight.work.job is None else flight.work.expires


def _only_job(request: Request) -> Job | None:
    """The request's one job, or None where it has several."""
    jobs = [job for phase in request.executor.plan(request.calls) for job in phase]
    return jobs[0] if len(jobs) == 1 else None


def _results(flight: _Flight, share: Job) -> Done:
    assert isinstance(flight.request, Request), "an errand has no job"
    return Done(flight.request.key, results=results_of(flight.request.calls, [share]))


def _merged(shares: Sequence[Job]) -> Job:
    merged = Job(shares[0].tool)
    for share in shares:
        for arguments in share.arguments:
            merged.add(len(merged.positions), arguments)
    return merged


def _share_out(job: Job, shares: Sequence[Job]) -> None:
    """Gives each share its part of the merged job's results."""
    if job is shares[0]:
        return
    at = 0
    for share in shares:
        share.results = job.results[at : at + len(share.positions)]
        at += len(share.positions)
