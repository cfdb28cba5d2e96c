"""How tasks give a policy Python: a fresh process per call, or a session that keeps its variables."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass

from agent_envs.errors import ConfigError
from agent_envs.options import require_choice
from agent_envs.sandbox import Limits
from agent_envs.tasks.base import SharedTools, Toolbox
from agent_envs.tools.base import Tool
from agent_envs.tools.python import PythonToolbox, python_tool

PYTHON = "python"


@dataclass(frozen=True, slots=True)
class PythonSettings:
    """How a task runs Python.

    Attributes:
        session: variables stay from one call to the next, within an episode.
        timeout_s: seconds that one call may take.
        isolation: "require" (refuse to start where the machine cannot isolate it) or "best-effort".
    """

    session: bool
    timeout_s: float
    isolation: str

    def __post_init__(self) -> None:
        require_choice("isolation", self.isolation, ("require", "best-effort"))
        if not 0 < self.timeout_s < math.inf:
            raise ConfigError(f"timeout_s is a number of seconds above 0, not {self.timeout_s}")


def open_python(settings: PythonSettings) -> Callable[[], Toolbox]:
    """What opens the tools of an episode: the tool ``python(code)``, which knows nothing of any problem.

    Raises:
        ConfigError: the machine cannot isolate Python, and the settings ask for it.
    """
    shared = SharedTools((_shared_tool(settings.timeout_s, settings.isolation),))  # made for a session too: it checks
    if not settings.session:
        return lambda: shared
    return lambda: PythonToolbox(Limits(timeout_s=settings.timeout_s), settings.isolation)


@functools.lru_cache(maxsize=16)
def _shared_tool(timeout_s: float, isolation: str) -> Tool:
    """One tool for all environments of these settings, so that they share what is made from its schema."""
    return python_tool(Limits(timeout_s=timeout_s), isolation)
