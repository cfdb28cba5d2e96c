"""The Python tool: the policy's code, run in a sandbox. Stateless as a tool, with variables that stay as a toolbox."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

from agent_envs.errors import ToolUseError
from agent_envs.sandbox import Execution, Limits, PythonSession, run_python
from agent_envs.sandbox.isolation import use_namespaces
from agent_envs.sandbox.process import START_S, STOP_S
from agent_envs.tools.base import Tool, TurnLock, tool

# What a call may take beside its code: a sandbox that is slow to start on a busy machine, and its end.
OVERHEAD_S = START_S + STOP_S + 2.0
REPLAY_S = 60.0  # for the first call of a fork

NO_OUTPUT = "(no output: print what you want to see)"
RESTARTED = "(the session was restarted: variables of earlier calls are gone)"


def python_tool(limits: Limits | None = None, isolation: str = "require", packages: tuple[str, ...] = ()) -> Tool:
    """The tool ``python``: each call runs in a fresh sandbox and leaves nothing.

    Args:
        limits: of one call; by default ``Limits()``.
        isolation: "require" or "best-effort".
        packages: installed packages that the code may import beside the standard library.

    Raises:
        ConfigError: isolation is required and this machine can't.
    """
    given = limits or Limits()
    use_namespaces(isolation)

    def python(code: str) -> str:
        """Run Python code and see what it prints and the value of its last expression. Each call starts afresh.

        Args:
            code: Python code, standard library only unless told otherwise.
        """
        return _answer(run_python(code, given, isolation, packages))

    return tool(python, timeout_s=given.timeout_s + OVERHEAD_S)


class PythonToolbox:
    """The tool ``python`` for one episode: variables, imports and files stay from call to call.

    The sandbox starts with the first call. A fork, a copy and an unpickled toolbox carry the state over by running the
    earlier calls again when they are first used (see ``PythonSession``).
    """

    def __init__(
        self, limits: Limits | None = None, isolation: str = "require", packages: tuple[str, ...] = ()
    ) -> None:
        """Starts nothing yet.

        Raises:
            ConfigError: isolation is required and this machine can't.
        """
        self._hold(PythonSession(limits, isolation, packages))

    @property
    def tools(self) -> tuple[Tool, ...]:
        """The one tool."""
        return (self._tool,)

    def fork(self) -> PythonToolbox:
        """A toolbox in the same state, independent from now on."""
        return _toolbox_of(self._session.fork())

    def close(self) -> None:
        """Ends the sandbox, if there is one."""
        self._session.close()

    def __deepcopy__(self, memo: dict[int, Any]) -> PythonToolbox:
        return self.fork()

    def __reduce__(self) -> tuple[Any, ...]:
        return _toolbox_of, (self._session,)

    def _hold(self, session: PythonSession) -> None:
        self._session = session
        self._tool = dataclasses.replace(
            _session_tool(),
            function=lambda code: _answer(session.run(code)),
            timeout_s=session.limits.timeout_s + OVERHEAD_S + REPLAY_S,
            lock=TurnLock(),
        )


def _toolbox_of(session: PythonSession) -> PythonToolbox:
    toolbox = PythonToolbox.__new__(PythonToolbox)
    toolbox._hold(session)
    return toolbox


@functools.cache
def _session_tool() -> Tool:
    """What the tools of all sessions share; made once, as a schema costs more than an episode should."""

    def python(code: str) -> str:
        """Run Python code and see what it prints and the value of its last expression. Variables stay.

        Args:
            code: Python code, standard library only unless told otherwise.
        """
        raise AssertionError("each toolbox puts its own session here")

    return tool(python, concurrent=False)


def _answer(execution: Execution) -> str:
    """What the policy reads of a run that ended in order.

    Raises:
        ToolUseError: the code failed; its words are what the policy reads then.
    """
    text = describe_execution(execution)
    if execution.status != "ok":
        raise ToolUseError(text)
    return text


def describe_execution(execution: Execution) -> str:
    """A run in words for the policy: output and value, or the mistake first and the output after it."""
    shown = [text.rstrip("\n") for text in (execution.stdout, execution.stderr, execution.value or "") if text]
    note = [RESTARTED] if execution.restarted else []
    if execution.status == "ok":
        return "\n".join(note + (shown or [NO_OUTPUT]))
    output = ["Output before that:", *shown] if shown else []
    return "\n".join([execution.error, *note, *output])
