"""Runs a turn's tool calls: validation, batches, threads, deadlines, retries.

The policy's mistakes come back as results it can act on. A tool that fails or runs past its deadline gives a result of
kind ``TOOL_FAILURE``, on which the episode ends as truncated.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence

from agent_envs.errors import ConfigError, ToolUseError
from agent_envs.tools.base import Tool
from agent_envs.tools.complaints import did_you_mean
from agent_envs.tools.running import Job, clean_text, describe_failure
from agent_envs.types import EventKind, ToolCall, ToolResult


class ToolExecutor:
    """The tools of an environment. Holds no thread between calls, so that it can be forked and copied.

    A turn's calls run side by side, except that a tool which is not ``concurrent`` runs alone: what the policy wrote
    before such a call runs before it, what follows runs after it. A call's deadline counts from when it and the calls
    beside it are started.
    """

    def __init__(self, tools: Sequence[Tool]) -> None:
        """Takes the tools by their names.

        Raises:
            ConfigError: two tools share a name.
        """
        self.tools = {tool.name: tool for tool in tools}
        if len(self.tools) != len(tools):
            raise ConfigError(f"two tools share a name: {[tool.name for tool in tools]}; give one another name=")

    def check(self, call: ToolCall) -> ToolCall:
        """The call with its arguments validated, or with the error that the policy should read."""
        if call.error is not None:
            return call
        tool = self.tools.get(call.name)
        if tool is None:
            hint = did_you_mean(call.name, list(self.tools))
            error = f"there is no tool named {call.name!r}; {hint}the tools are: {', '.join(self.tools) or 'none'}"
            return ToolCall(call.name, call.arguments, error, EventKind.UNKNOWN_TOOL)
        try:
            tool.validate(call.arguments)
        except ToolUseError as error:
            return ToolCall(call.name, call.arguments, clean_text(str(error)), EventKind.INVALID_ARGUMENTS)
        except Exception as error:  # a validator of the tool's own types crashed
            return ToolCall(call.name, call.arguments, describe_failure(tool, error), EventKind.TOOL_FAILURE)
        return call

    def run(self, calls: Sequence[ToolCall]) -> tuple[ToolResult, ...]:
        """One result per checked call, in order."""
        hanging: Tool | None = None
        phases = self.plan(calls)
        for phase in phases:
            if hanging is None:
                _run_beside_each_other(phase)
                hanging = next((job.tool for job in phase if job.running), None)
            else:
                for job in phase:
                    job.give_up(f"was not run, because {hanging.name} hangs")
        return results_of(calls, [job for phase in phases for job in phase])

    def plan(self, calls: Sequence[ToolCall]) -> list[list[Job]]:
        """The jobs in the order of the calls, those that may run at the same time together.

        A job is one call, or all calls of a batching tool within its phase.
        """
        phases: list[list[Job]] = []
        shared = False  # whether the last phase takes further jobs
        for position, call in enumerate(calls):
            if call.error is not None:
                continue
            tool = self.tools[call.name]
            fits = tool.concurrent and shared
            if not fits and not (phases and tool.batch is not None and phases[-1][0].tool is tool):
                phases.append([])
                shared = tool.concurrent
            batch = next((job for job in phases[-1] if job.tool is tool and tool.batch is not None), None)
            if batch is None:
                batch = Job(tool)
                phases[-1].append(batch)
            batch.add(position, tool.validate(call.arguments))
        return phases


def results_of(calls: Sequence[ToolCall], jobs: Sequence[Job]) -> tuple[ToolResult, ...]:
    """One result per call, in order: what the jobs gave, and the errors of the calls that were in none."""
    results = [ToolResult(f"Error: {call.error}", kind=call.kind) for call in calls]
    for job in jobs:
        for position, result in zip(job.positions, job.results, strict=True):
            results[position] = result
    return tuple(results)


def _run_beside_each_other(jobs: Sequence[Job]) -> None:
    """Starts each job and waits until it is done or its deadline has passed."""
    start = time.monotonic()
    threads: list[tuple[threading.Thread, float]] = []
    try:
        for job in jobs:
            if job.tool.timeout_s is not None:
                job.deadline = start + job.tool.timeout_s
                threads += _started(job, job.deadline)
        for job in jobs:
            if job.deadline is None:
                job.work()
        for thread, deadline in threads:
            thread.join(max(0.0, deadline - time.monotonic()))
    finally:  # also on Ctrl-C: no job that waits for its lock may start later
        for job in jobs:
            job.expire()


def _started(job: Job, deadline: float) -> list[tuple[threading.Thread, float]]:
    """The job's thread and deadline; none where the system has no thread left, which is the job's failure."""
    # Daemon threads: a hanging tool must not keep the process from ending.
    thread = threading.Thread(target=job.work, name=f"tool-{job.tool.name}", daemon=True)
    try:
        thread.start()
    except RuntimeError as error:
        job.give_up(f"was not run ({error})")
        return []
    return [(thread, deadline)]
