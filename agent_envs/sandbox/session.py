"""Running code in a sandbox: once, or cell by cell with variables that stay."""

from __future__ import annotations

import dataclasses
import weakref
from typing import Any

from agent_envs.sandbox.execution import Execution
from agent_envs.sandbox.isolation import use_namespaces
from agent_envs.sandbox.limits import Limits
from agent_envs.sandbox.process import SandboxProcess


def run_python(
    code: str, limits: Limits | None = None, isolation: str = "require", packages: tuple[str, ...] = ()
) -> Execution:
    """Runs code in a fresh sandbox, which is gone when this returns.

    Args:
        code: Python statements; the value of a last expression is given back too.
        limits: by default ``Limits()``.
        isolation: "require" or "best-effort".
        packages: installed packages that the code may import beside the standard library, as ("numpy",).

    Raises:
        ConfigError: isolation is required and this machine can't, or a package is not installed.
        SandboxError: the sandbox did not start.
    """
    process = SandboxProcess(limits or Limits(), packages, use_namespaces(isolation))
    try:
        return process.run(code)
    finally:
        process.kill()


class PythonSession:
    """Cells of code that share their variables and files, in one sandbox that starts with the first of them.

    A cell that is killed, for time or otherwise, takes all variables with it: the next one starts afresh and is told so
    by ``Execution.restarted``. For one thread at a time; ``close`` may come from any.

    A fork, a copy and an unpickled session run the earlier cells again, when they are first used. What the cells
    computed comes out the same, ``random`` included; what they took from the clock or the system (``time``,
    ``os.urandom``, ``uuid``) does not.
    """

    def __init__(
        self, limits: Limits | None = None, isolation: str = "require", packages: tuple[str, ...] = ()
    ) -> None:
        """Starts nothing yet.

        Raises:
            ConfigError: isolation is required and this machine can't.
        """
        self.limits = limits or Limits()
        self.isolation = isolation
        self.packages = packages
        self._namespaces = use_namespaces(isolation)
        self._cells: list[str] = []
        self._lost = False  # there were cells, and the next one will not find what they left
        self._process: SandboxProcess | None = None

    def run(self, code: str) -> Execution:
        """Runs a cell.

        Raises:
            SandboxError: the sandbox did not start.
        """
        process = self._process
        if process is None or not process.alive:
            process = self._process = self._start()
        restarted, self._lost = self._lost, False
        execution = dataclasses.replace(process.run(code), restarted=restarted)
        self._cells.append(code)
        if not process.alive:
            self._forget()
        return execution

    def fork(self) -> PythonSession:
        """A session in the same state, independent from now on. Costs nothing until it is used."""
        fork = PythonSession(self.limits, self.isolation, self.packages)
        fork._cells = list(self._cells)
        fork._lost = self._lost
        return fork

    def close(self) -> None:
        """Ends the sandbox; everything in it is gone. May be repeated; a later ``run`` starts an empty one."""
        self._cells, self._lost = [], False
        if self._process is not None:
            self._process.kill()
            self._process = None

    def __deepcopy__(self, memo: dict[int, Any]) -> PythonSession:
        return self.fork()

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore, (self.limits, self.isolation, self.packages, tuple(self._cells), self._lost)

    def _start(self) -> SandboxProcess:
        """A new sandbox, in which the earlier cells have been run."""
        process = self._new_process()
        for cell in self._cells:
            process.run(cell)
            if not process.alive:  # a cell that ended in time before did not now
                self._forget()
                return self._new_process()
        return process

    def _new_process(self) -> SandboxProcess:
        process = SandboxProcess(self.limits, self.packages, self._namespaces)
        weakref.finalize(self, process.kill)
        return process

    def _forget(self) -> None:
        self._cells, self._lost = [], True


def _restore(limits: Limits, isolation: str, packages: tuple[str, ...], cells: tuple[str, ...], lost: bool) -> Any:
    session = PythonSession(limits, isolation, packages)
    session._cells = list(cells)
    session._lost = lost
    return session
