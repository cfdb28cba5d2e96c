"""Milliseconds per call of the Python tool, against a plain ``subprocess.run`` of the bare interpreter.

Usage: python benchmarks/bench_python_tool.py [--rounds 40] [--out benchmarks/results/python_tool.json]

All kinds of call take turns within each round, so that a busy machine is busy for all of them; the ratios of the
medians are what to read. A plain subprocess isolates nothing. With ``site`` it may cost much more, depending on what is
installed, so the baseline is without.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from agent_envs.sandbox import PythonSession, run_python
from agent_envs.sandbox.view import interpreter

CODE = "print(6 * 7)"
BASELINE = "plain subprocess.run, -I -S"


def plain() -> None:
    """What a tool without a sandbox does."""
    subprocess.run([str(interpreter()), "-c", CODE], capture_output=True, check=True)


def bare() -> None:
    """The same without the import of ``site``, which no sandbox pays for either."""
    subprocess.run([str(interpreter()), "-I", "-S", "-c", CODE], capture_output=True, check=True)


def fresh() -> None:
    """One stateless call: a sandbox from start to end."""
    assert run_python(CODE).stdout == "42\n"


def first_cell() -> None:
    """A session that runs one cell."""
    session = PythonSession()
    session.run(CODE)
    session.close()


def forked_cell(parent: PythonSession) -> None:
    """A fork of a session with two cells, and its next cell."""
    fork = parent.fork()
    fork.run(CODE)
    fork.close()


def milliseconds(work: Callable[[], object]) -> float:
    """How long a call takes."""
    start = time.perf_counter()
    work()
    return (time.perf_counter() - start) * 1e3


def measure(rounds: int) -> list[dict[str, Any]]:
    """The median and the 90th percentile of each kind, and the ratio of the medians to the baseline's."""
    session = PythonSession()
    session.run("x = 1")
    session.run("y = 2")
    parent = session.fork()
    parent.run("x")
    kinds: dict[str, Callable[[], object]] = {
        "plain subprocess.run": plain,
        BASELINE: bare,
        "fresh sandbox": fresh,
        "session, start to end": first_cell,
        "session, fork and next cell": lambda: forked_cell(parent),
        "session, further cell": lambda: session.run(CODE),
    }
    for work in kinds.values():
        work()
    times: dict[str, list[float]] = {name: [] for name in kinds}
    for _ in range(rounds):
        for name, work in kinds.items():
            times[name].append(milliseconds(work))
    session.close()
    parent.close()
    base = statistics.median(times[BASELINE])
    return [
        {
            "what": name,
            "median_ms": round(statistics.median(taken), 2),
            "p90_ms": round(statistics.quantiles(taken, n=10)[-1], 2),
            "ratio": round(statistics.median(taken) / base, 2),
        }
        for name, taken in times.items()
    ]


def main() -> None:
    """Measures, prints, and keeps the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/python_tool.json"))
    arguments = parser.parse_args()
    results = measure(arguments.rounds)
    for result in results:
        print("  ".join(f"{key} {value}" for key, value in result.items()))
    record = {"python": platform.python_version(), "system": platform.platform(), "results": results}
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.write_text(json.dumps(record, indent=2) + "\n")


if __name__ == "__main__":
    main()
