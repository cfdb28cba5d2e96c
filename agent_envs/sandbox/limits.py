"""What sandboxed code may use."""

from __future__ import annotations

import math
from dataclasses import dataclass

from agent_envs.errors import ConfigError

MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of one sandbox. Plain data, so that an environment's options can carry them.

    Memory is limited per process, so the most that a sandbox can hold is ``processes * memory_mb + file_mb``.

    Attributes:
        timeout_s: wall-clock seconds of one run (in a session: of one cell); the start of the sandbox is not counted.
        cpu_s: processor seconds of each process (in a session: per cell for its main process); None for
            ``timeout_s`` rounded up, plus 1.
        memory_mb: address space of each process, in MiB; the interpreter itself takes about 20.
        processes: processes and threads at one time, the main one included.
        file_mb: of the temporary folder as a whole, in MiB (without namespaces: of each file). Files are in memory.
        output_chars: characters kept of each of stdout, stderr, value and traceback: the head and the tail.
    """

    timeout_s: float = 5.0
    cpu_s: int | None = None
    memory_mb: int = 512
    processes: int = 8
    file_mb: int = 64
    output_chars: int = 4000

    def __post_init__(self) -> None:
        if not 0 < self.timeout_s < math.inf:
            raise ConfigError(f"timeout_s must be above 0 and finite, not {self.timeout_s}")
        least = {"memory_mb": 64, "processes": 1, "file_mb": 1, "output_chars": 100}
        for name, minimum in least.items():
            if getattr(self, name) < minimum:
                raise ConfigError(f"{name} of a sandbox must be at least {minimum}, not {getattr(self, name)}")
        if self.cpu_s is not None and self.cpu_s < 1:
            raise ConfigError(f"cpu_s of a sandbox must be at least 1, or None, not {self.cpu_s}")

    @property
    def cpu_seconds(self) -> int:
        """``cpu_s``, its default filled in."""
        return self.cpu_s if self.cpu_s is not None else math.ceil(self.timeout_s) + 1
