"""Injects faults of a retrieval server into episodes: each costs its own episode, with a typed error, and no other.

Usage: python benchmarks/fault_injection.py [--episodes 2000] [--rates 0.01 0.1 1.0] [--timeout 1.0]

Episodes of HotpotQA's embedded world run 50 side by side in an ``AgentVectorEnv`` and search through an
``HttpRetriever``. An episode with a fault asks the server a query at which it commits that fault on the wire (see
``faulty_server.py``), or asks a dead port. "restart": the server is gone for whole steps and comes back, on the same
port, before the next. "short restart": it is gone for a tenth of a second within steps, which retries bridge, so that
nothing is to be noticed.

Checked, for every kind and rate: the episodes that failed are those with a fault, by the error that the fault is; every
other one read what a retriever in the process gives, and earned 1.0; no more threads than before; and memory, looked at
after every kind has hit all environments twice and at the end, within 5 %. Exit code 1 if anything is not so. The file
keeps its figures of kinds that are left out (``--kinds``).
"""

from __future__ import annotations

import argparse
import ctypes
import functools
import gc
import json
import os
import random
import socket
import sys
import threading
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agent_envs.budgets import Budgets
from agent_envs.data.mini_hotpot import MINI_HOTPOT
from agent_envs.data.records import Question
from agent_envs.envs import TurnEnv
from agent_envs.episode import EpisodeCore
from agent_envs.formats import FORMATS
from agent_envs.retrieval import Bm25Retriever, corpus_of
from agent_envs.retrieval.base import Hit
from agent_envs.retrieval.client import ClientOptions, HttpRetriever
from agent_envs.rewards import QA_REWARDS
from agent_envs.tasks.base import OracleTurn
from agent_envs.tasks.qa import SYSTEM_PROMPT, QaTask
from agent_envs.tokenizers import ByteTokenizer
from agent_envs.tools.search import render_hits, search_tool
from agent_envs.types import ToolCall
from agent_envs.vector import AgentVectorEnv

try:
    from benchmarks.faulty_server import MARK, FaultyServer
except ImportError:  # run as a script
    from faulty_server import MARK, FaultyServer  # type: ignore[import-not-found, no-redef]

TOP_K = 3
ALLOWED_GROWTH = 0.05
PATIENCE = 10
DEAD = "dead server"
RESTART, SHORT_RESTART = "restart", "short restart"
ERRORS = {
    "crash": "RetrievalUnavailableError",
    "hang": "RetrievalTimeoutError",
    "exception": "RetrievalAnswerError",
    "non-string": "RetrievalAnswerError",
    "5 MB": "RetrievalAnswerError",
    "invalid UTF-8": "RetrievalAnswerError",
    "slow drip": "RetrievalTimeoutError",
    DEAD: "RetrievalUnavailableError",
    RESTART: "RetrievalUnavailableError",
    SHORT_RESTART: "",
}


@dataclass(frozen=True, slots=True)
class Plan:
    """What is injected where.

    Attributes:
        kind: of ``ERRORS``.
        rate: the share of the episodes (of the steps, for the restarts).
        episodes: in all.
        num_envs: side by side.
        timeout_s: of a search that the fault holds up; of others ``PATIENCE`` times that, so that a busy machine is no
            fault.
    """

    kind: str
    rate: float
    episodes: int = 2000
    num_envs: int = 50
    timeout_s: float = 1.0

    @property
    def deadline_s(self) -> float:
        """Of a search."""
        return self.timeout_s * (1 if ERRORS[self.kind] == "RetrievalTimeoutError" else PATIENCE)

    def chosen(self, count: int) -> frozenset[int]:
        """Which of so many are hit; at least one."""
        dice = random.Random(f"{self.kind} {self.rate}")
        return frozenset(dice.sample(range(count), max(1, round(self.rate * count))))


@dataclass(slots=True)
class Outcome:
    """What became of the episodes.

    Attributes:
        injected: episodes with a fault.
        failed: those of them that ended as they should, with the right error.
        wrong: what was not as it should be, in words.
        errors: how often each typed error came.
        seconds: of all steps.
    """

    injected: int = 0
    failed: int = 0
    wrong: list[str] = field(default_factory=list)
    errors: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0


class Routed:
    """Searches through one server, but through a dead one where a query asks for that."""

    def __init__(self, url: str, timeout_s: float) -> None:
        """Opens nothing yet."""
        options = ClientOptions(timeout_s, retries=4, backoff_s=0.05, cooldown_s=0.02, cache_size=0)
        self._client = HttpRetriever(url, options)
        self._dead = HttpRetriever(f"http://127.0.0.1:{_unused_port()}", options)

    def search(self, queries: Sequence[str], top_k: int) -> list[list[Hit]]:
        """What the server finds."""
        dead = any(query.startswith(MARK + DEAD) for query in queries)
        return (self._dead if dead else self._client).search(queries, top_k)

    def close(self) -> None:
        """Closes the connections."""
        self._client.close()


@functools.cache
def in_process() -> Bm25Retriever:
    """What the server searches with, and what its hits are compared to."""
    return Bm25Retriever(corpus_of(MINI_HOTPOT.split("train")))


class Injection:
    """A vector environment over a faulty server, and what its episodes should read."""

    def __init__(self, num_envs: int, timeout_s: float) -> None:
        """Starts the server."""
        questions = MINI_HOTPOT.split("train")
        self.retriever = in_process()
        self.server = FaultyServer(self.retriever)
        self.client = Routed(self.server.url, timeout_s)
        self.task = QaTask(questions, search_tool(self.client, TOP_K), QA_REWARDS.get("paper"), SYSTEM_PROMPT)
        budgets = Budgets(max_context=20_000, max_observation_tokens=8_000)
        self.envs = AgentVectorEnv([self._env(budgets) for _ in range(num_envs)], "Disabled", deadline_s=30.0)

    def _env(self, budgets: Budgets) -> TurnEnv:
        return TurnEnv(EpisodeCore("AgentR1/HotpotQA-v0", self.task, ByteTokenizer(), FORMATS.get("hermes"), budgets))

    def run(self, plan: Plan) -> Outcome:
        """Plays all episodes."""
        outcome = Outcome()
        steps = plan.episodes // plan.num_envs
        restarts = plan.kind in (RESTART, SHORT_RESTART)
        chosen = plan.chosen(steps if restarts else plan.episodes)
        start = time.perf_counter()
        for step in range(steps):
            numbers = range(step * plan.num_envs, (step + 1) * plan.num_envs)
            if restarts:
                hit = frozenset(numbers) if step in chosen and plan.kind == RESTART else frozenset()
                self._with_restart(step in chosen, plan, numbers, hit, outcome)
            else:
                self._play(plan, numbers, chosen.intersection(numbers), outcome)
        outcome.seconds = time.perf_counter() - start
        return outcome

    def close(self) -> None:
        """Ends everything."""
        self.envs.close()
        self.client.close()
        self.server.stop()

    def _with_restart(self, now: bool, plan: Plan, numbers: range, hit: frozenset[int], outcome: Outcome) -> None:
        """One round of episodes; the server goes before it, if now is the time, and comes back in or after it."""
        if not now:
            self._play(plan, numbers, hit, outcome)
            return
        self.server.stop()
        back = threading.Timer(0.1, self._come_back)
        if plan.kind == SHORT_RESTART:
            back.start()
            self._play(plan, numbers, hit, outcome)
            back.join()
        else:
            self._play(plan, numbers, hit, outcome)
            self._come_back()
            time.sleep(0.03)  # until the client asks for a sign of life again

    def _come_back(self) -> None:
        self.server = FaultyServer(self.retriever, self.server.port)

    def _play(self, plan: Plan, numbers: range, hit: frozenset[int], outcome: Outcome) -> None:
        """One episode in each environment: a search, and the answer."""
        questions = [self.task.item(number % len(self.task)) for number in numbers]
        self.envs.reset(options={"task_id": [question.task_id for question in questions]})
        queries = [
            f"{MARK}{plan.kind}/{number}" if number in hit and plan.kind != RESTART else question.gold_queries[0]
            for number, question in zip(numbers, questions, strict=True)
        ]
        format_ = self.envs.envs[0].core.format
        texts, _, _, truncated, info = self.envs.step(
            tuple(format_.write_calls((ToolCall("search", {"query": query}),)) for query in queries)
        )
        errors = list(info.get("error", [""] * len(queries)))
        outcome.injected += len(hit)
        sound = []
        for index, number in enumerate(numbers):
            found = f"episode {number} ({plan.kind}): "
            if number in hit:
                right = truncated[index] and f"({ERRORS[plan.kind]}:" in errors[index]
                outcome.failed += bool(right)
                outcome.wrong += [] if right else [found + f"expected {ERRORS[plan.kind]}, got {errors[index]!r}"]
            elif truncated[index] or self._expected(queries[index]) not in texts[index]:
                outcome.wrong.append(found + f"touched by another's fault: {errors[index] or texts[index]!r}")
            else:
                sound.append(index)
            outcome.errors.update([_type_of(errors[index])] if errors[index] else [])
        self._answer(questions, sound, outcome)

    def _expected(self, query: str) -> str:
        return render_hits(self.retriever.search([query], TOP_K)[0])

    def _answer(self, questions: Sequence[Question], sound: Sequence[int], outcome: Outcome) -> None:
        turns = [OracleTurn(answer=questions[index].answers[0]) for index in sound]
        self.envs.send([self.envs.envs[0].core.write_turn(turn) for turn in turns], sound)
        for ready in self.envs.recv(min_ready=len(sound)):
            if not ready.terminated or ready.reward != 1.0:
                outcome.wrong.append(f"environment {ready.env_id}: the right answer earned {ready.reward}")


def _type_of(error: str) -> str:
    return error.partition("(")[2].partition(":")[0]


def _unused_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def threads_left(before: int, timeout_s: float = 5.0) -> int:
    """How many threads more than before there are, once those that are about to end have."""
    deadline = time.monotonic() + timeout_s
    while threading.active_count() > before and time.monotonic() < deadline:
        time.sleep(0.01)
    return threading.active_count() - before


def resident_mb() -> float:
    """The process's resident memory in MB, without what the allocator merely keeps."""
    gc.collect()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # glibc's
    if trim is not None:
        trim(0)
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def run_one(plan: Plan) -> tuple[Outcome, int]:
    """One plan from start to end, and the threads that it left."""
    in_process()  # its library starts a thread of its own
    before = threading.active_count()
    injection = Injection(plan.num_envs, plan.deadline_s)
    outcome = injection.run(plan)
    injection.close()
    return outcome, threads_left(before)


def main() -> None:
    """Injects everything at every rate, prints a table, and keeps the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--episodes", type=int, default=2000)
    parser.add_argument("--rates", type=float, nargs="+", default=[0.01, 0.1, 1.0])
    parser.add_argument("--kinds", nargs="+", default=list(ERRORS), choices=list(ERRORS))
    parser.add_argument("--timeout", type=float, default=1.0, help="of a search, in seconds, for faults that take time")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/fault_injection.json"))
    arguments = parser.parse_args()
    for kind in arguments.kinds:
        run_one(Plan(kind, 1.0, episodes=100, timeout_s=arguments.timeout))
    warm, rows, fine = resident_mb(), [], True
    for kind in arguments.kinds:
        for rate in arguments.rates:
            outcome, threads = run_one(Plan(kind, rate, arguments.episodes, timeout_s=arguments.timeout))
            row: dict[str, Any] = {
                "kind": kind,
                "rate": rate,
                "episodes": arguments.episodes,
                "timeout_s": arguments.timeout,
                "injected": outcome.injected,
                "typed_errors": dict(outcome.errors),
                "as_expected": outcome.failed,
                "wrong": len(outcome.wrong),
                "threads_left": threads,
                "resident_mb": round(resident_mb(), 1),
                "resident_mb_warm": round(warm, 1),
                "seconds": round(outcome.seconds, 1),
            }
            rows.append(row)
            print("  ".join(f"{key} {value}" for key, value in row.items()), *outcome.wrong[:3], sep="\n  ", flush=True)
            fine &= not outcome.wrong and outcome.failed == outcome.injected == outcome.errors.total() and threads == 0
    growth = resident_mb() / warm - 1
    print(f"memory: {warm:.1f} MB warm, grown by {growth:.1%} at the end")
    earlier = json.loads(arguments.out.read_text())["results"] if arguments.out.exists() else []
    record = {"results": [row for row in earlier if row["kind"] not in arguments.kinds] + rows}
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.write_text(json.dumps(record, indent=2) + "\n")
    sys.exit(not fine or growth > ALLOWED_GROWTH)


if __name__ == "__main__":
    main()
