"""What a retrieval server counts, in Prometheus' text format."""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping, Sequence

PREFIX = "agentr1_retrieval_"
SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)


class LabelledCounter:
    """A counter with one label."""

    def __init__(self, name: str, what: str, label: str) -> None:
        """Begins with no label at all."""
        self._name, self._what, self._label = PREFIX + name, what, label
        self._counts: Counter[str] = Counter()
        self._guard = threading.Lock()

    def add(self, value: str, count: int = 1) -> None:
        """Counts for a value of the label."""
        with self._guard:
            self._counts[value] += count

    def lines(self) -> list[str]:
        """As text."""
        with self._guard:
            counts = sorted(self._counts.items())
        return [
            f"# HELP {self._name} {self._what}",
            f"# TYPE {self._name} counter",
            *(f'{self._name}{{{self._label}="{value}"}} {count}' for value, count in counts),
        ]


class Histogram:
    """Counts of values up to fixed bounds, their number and their sum."""

    def __init__(self, name: str, what: str, bounds: Sequence[float]) -> None:
        """Begins with zeros."""
        self._name, self._what, self._bounds = PREFIX + name, what, tuple(bounds)
        self._counts = [0] * (len(self._bounds) + 1)
        self._sum = 0.0
        self._guard = threading.Lock()

    def observe(self, value: float) -> None:
        """Counts a value in its bucket."""
        with self._guard:
            self._counts[bisect_left(self._bounds, value)] += 1
            self._sum += value

    def lines(self) -> list[str]:
        """As text, the buckets cumulative."""
        with self._guard:
            counts, total = list(self._counts), self._sum
        lines = [f"# HELP {self._name} {self._what}", f"# TYPE {self._name} histogram"]
        so_far = 0
        for bound, count in zip((*map(repr, self._bounds), "+Inf"), counts, strict=True):
            so_far += count
            lines.append(f'{self._name}_bucket{{le="{bound}"}} {so_far}')
        return [*lines, f"{self._name}_sum {total!r}", f"{self._name}_count {so_far}"]


class ServerMetrics:
    """Everything that one server counts."""

    def __init__(self) -> None:
        """Begins with zeros."""
        self.requests = LabelledCounter("requests_total", "Requests to /retrieve by status.", "status")
        self.errors = LabelledCounter("errors_total", "Requests to /retrieve that failed, by cause.", "kind")
        self.request_seconds = Histogram("request_seconds", "From a request to its answer.", SECONDS)
        self.search_seconds = Histogram("search_seconds", "One call of the retriever.", SECONDS)
        self.batch_queries = Histogram("batch_queries", "Queries in one call of the retriever.", SIZES)
        self.request_queries = Histogram("request_queries", "Queries in one request.", SIZES)

    def observe_batch(self, size: int, seconds: float) -> None:
        """Counts a call of the retriever."""
        self.batch_queries.observe(size)
        self.search_seconds.observe(seconds)

    def render(self, gauges: Mapping[str, float]) -> str:
        """The whole page.

        Args:
            gauges: values of this moment, by name.
        """
        parts = (
            self.requests,
            self.errors,
            self.request_seconds,
            self.search_seconds,
            self.batch_queries,
            self.request_queries,
        )
        lines = [line for part in parts for line in part.lines()]
        for name, value in gauges.items():
            lines += [f"# TYPE {PREFIX}{name} gauge", f"{PREFIX}{name} {value!r}"]
        return "\n".join(lines) + "\n"
