"""A circuit breaker: what keeps a dead server from costing every search its whole deadline.

Failures in a row only raise a suspicion, since a poisonous query fails as often as it is tried, on a server that is
well. So before the circuit opens, and before it closes again, the server is asked for a sign of life.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from enum import Enum, auto


class Verdict(Enum):
    """What a caller may do."""

    PASS = auto()
    PROBE = auto()  # look whether the server lives, and tell the breaker, before anything else
    REFUSE = auto()


class CircuitBreaker:
    """Counts failures; any thread may ask and tell."""

    def __init__(self, failures_to_open: int, cooldown_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        """Begins closed.

        Args:
            failures_to_open: in a row, until the server is probed.
            cooldown_s: after a probe in vain, until the next.
            clock: seconds.
        """
        self._failures_to_open = failures_to_open
        self._cooldown_s = cooldown_s
        self._clock = clock
        self._guard = threading.Lock()
        self._failures = 0
        self._open = False
        self._probing = False
        self._next_probe = 0.0

    @property
    def is_open(self) -> bool:
        """True from a probe in vain to the next sign of life."""
        return self._open

    def ask(self) -> Verdict:
        """Whether an exchange may begin. Who is told to probe must ``settle``, come what may."""
        with self._guard:
            if self._failures < self._failures_to_open:
                return Verdict.PASS
            if not self._probing and self._clock() >= self._next_probe:
                self._probing = True
                return Verdict.PROBE
            return Verdict.REFUSE if self._open else Verdict.PASS

    def settle(self, alive: bool) -> None:
        """Tells the outcome of a probe."""
        with self._guard:
            self._probing = False
            self._open = not alive
            if alive:
                self._failures = 0
            else:
                self._next_probe = self._clock() + self._cooldown_s

    def succeeded(self) -> None:
        """Tells of an exchange that went well."""
        if self._failures:
            with self._guard:
                self._failures = 0
                self._open = False

    def failed(self) -> None:
        """Tells of an exchange that did not."""
        with self._guard:
            self._failures += 1
