"""Batches: who shares one, who gets what, and who pays for whose fault."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from concurrent.futures import Future

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_envs.data.records import Passage
from agent_envs.errors import ConfigError
from agent_envs.retrieval.base import Hit
from agent_envs.retrieval.batching import (
    BatcherClosedError,
    BatchRules,
    DynamicBatcher,
    QueueFullError,
    SearchFailedError,
)


class Echo:
    """Gives each query itself, ``top_k`` times, and keeps count of its calls; can be held up, and fails on demand."""

    def __init__(self) -> None:
        self.calls: list[tuple[list[str], int]] = []
        self.gate = threading.Event()
        self.gate.set()
        self.begun = threading.Event()

    def search(self, queries: Sequence[str], top_k: int) -> list[list[Hit]]:
        self.calls.append((list(queries), top_k))
        self.begun.set()
        assert self.gate.wait(5.0)
        if any(query.startswith("bad") for query in queries):
            raise ValueError(f"{queries[0]} cannot be searched")
        if "exit" in queries:
            raise SystemExit(3)
        if "short" in queries:
            return []
        return [[Hit(Passage(query, "text"), float(rank)) for rank in range(top_k)] for query in queries]

    def hold(self, batcher: DynamicBatcher) -> Future[list[list[Hit]]]:
        """Occupies the batcher, so that what comes next waits."""
        self.gate.clear()
        self.begun.clear()
        future = batcher.submit(["held"], 1)
        assert self.begun.wait(5.0)
        return future


def titles(future: Future[list[list[Hit]]]) -> list[list[str]]:
    return [[hit.passage.title for hit in hits] for hits in future.result(5.0)]


def test_requests_that_wait_go_together_and_each_gets_its_own() -> None:
    echo = Echo()
    batcher = DynamicBatcher(echo.search)
    held = echo.hold(batcher)
    futures = [batcher.submit([f"q{i}", f"r{i}"], 2) for i in range(10)]
    assert batcher.depth == 20
    assert not any(future.done() for future in futures)
    echo.gate.set()
    assert [titles(future) for future in futures] == [[[f"q{i}"] * 2, [f"r{i}"] * 2] for i in range(10)]
    assert titles(held) == [["held"]]
    assert [len(queries) for queries, _ in echo.calls] == [1, 20]
    assert batcher.depth == 0 and batcher.close(5.0)


def test_a_batch_is_never_larger_than_allowed_and_a_large_request_is_spread() -> None:
    echo = Echo()
    batcher = DynamicBatcher(echo.search, BatchRules(max_batch=4))
    echo.hold(batcher)
    large = batcher.submit([f"q{i}" for i in range(10)], 1)
    small = batcher.submit(["last"], 1)
    echo.gate.set()
    assert titles(large) == [[f"q{i}"] for i in range(10)] and titles(small) == [["last"]]
    assert [queries for queries, _ in echo.calls[1:]] == [
        ["q0", "q1", "q2", "q3"],
        ["q4", "q5", "q6", "q7"],
        ["q8", "q9", "last"],
    ]


def test_only_equal_numbers_of_hits_share_a_batch_and_none_waits_for_ever() -> None:
    echo = Echo()
    batcher = DynamicBatcher(echo.search)
    echo.hold(batcher)
    futures = [batcher.submit([f"q{i}"], 1 + i % 2) for i in range(6)]
    echo.gate.set()
    assert [titles(future) for future in futures] == [[[f"q{i}"] * (1 + i % 2)] for i in range(6)]
    assert echo.calls[1:] == [(["q0", "q2", "q4"], 1), (["q1", "q3", "q5"], 2)]


def test_a_request_waits_for_company_only_so_long() -> None:
    echo = Echo()
    batcher = DynamicBatcher(echo.search, BatchRules(max_wait_ms=150, max_batch=3))
    start = time.monotonic()
    assert titles(batcher.submit(["alone"], 1)) == [["alone"]]
    assert 0.14 <= time.monotonic() - start < 2.0
    start = time.monotonic()
    futures = [batcher.submit([f"q{i}"], 1) for i in range(3)]  # a full batch waits for nobody
    assert [titles(future) for future in futures] == [[["q0"]], [["q1"]], [["q2"]]]
    assert time.monotonic() - start < 0.14
    assert len(echo.calls) == 2


def test_without_batching_each_query_is_a_call() -> None:
    echo = Echo()
    batcher = DynamicBatcher(echo.search, BatchRules(max_batch=1, max_wait_ms=1000))
    start = time.monotonic()
    assert titles(batcher.submit(["a", "b", "c"], 1)) == [["a"], ["b"], ["c"]]
    assert time.monotonic() - start < 0.9
    assert [queries for queries, _ in echo.calls] == [["a"], ["b"], ["c"]]


def test_a_failure_reaches_the_request_that_causes_it_and_no_other() -> None:
    echo = Echo()
    batcher = DynamicBatcher(echo.search)
    echo.hold(batcher)
    good = batcher.submit(["fine"], 1)
    bad = batcher.submit(["bad one", "fine too"], 1)
    leaving = batcher.submit(["exit"], 1)
    short = batcher.submit(["short"], 1)
    last = batcher.submit(["also fine"], 1)
    echo.gate.set()
    assert titles(good) == [["fine"]] and titles(last) == [["also fine"]]
    with pytest.raises(SearchFailedError, match="ValueError: bad one cannot be searched"):
        bad.result(5.0)
    with pytest.raises(SearchFailedError, match="SystemExit: 3"):
        leaving.result(5.0)
    with pytest.raises(SearchFailedError, match="0 lists of hits for 1 queries"):
        short.result(5.0)
    assert titles(batcher.submit(["afterwards"], 1)) == [["afterwards"]]


def test_what_is_left_of_a_failed_request_is_dropped() -> None:
    echo = Echo()
    batcher = DynamicBatcher(echo.search, BatchRules(max_batch=2))
    echo.hold(batcher)
    bad = batcher.submit(["bad", "a", "b", "c"], 1)
    good = batcher.submit(["fine"], 1)
    echo.gate.set()
    assert titles(good) == [["fine"]]
    with pytest.raises(SearchFailedError):
        bad.result(5.0)
    assert [queries for queries, _ in echo.calls[1:]] == [["bad", "a"], ["fine"]]
    assert batcher.depth == 0


def test_a_full_queue_turns_requests_away_and_a_cancelled_one_is_not_searched() -> None:
    echo = Echo()
    batcher = DynamicBatcher(echo.search, BatchRules(max_queue=3))
    echo.hold(batcher)
    gone = batcher.submit(["a", "b"], 1)
    kept = batcher.submit(["c"], 1)
    with pytest.raises(QueueFullError, match="3 queries wait already, of at most 3"):
        batcher.submit(["d"], 1)
    assert gone.cancel()
    echo.gate.set()
    assert titles(kept) == [["c"]]
    assert titles(batcher.submit(["d", "e"], 1)) == [["d"], ["e"]]
    assert [queries for queries, _ in echo.calls[1:]] == [["c"], ["d", "e"]]


def test_closing_answers_what_waits_and_takes_nothing_more() -> None:
    echo = Echo()
    batcher = DynamicBatcher(echo.search, BatchRules(max_batch=2, max_wait_ms=60_000))
    held = batcher.submit(["a", "b"], 1)
    waiting = batcher.submit(["c"], 1)
    assert batcher.close(5.0)
    assert titles(held) == [["a"], ["b"]] and titles(waiting) == [["c"]]
    with pytest.raises(BatcherClosedError):
        batcher.submit(["d"], 1)


def test_closing_fails_what_a_hanging_retriever_never_comes_to() -> None:
    echo = Echo()
    batcher = DynamicBatcher(echo.search)
    echo.hold(batcher)
    waiting = batcher.submit(["c"], 1)
    assert batcher.busy_s > 0
    assert not batcher.close(0.05)
    with pytest.raises(BatcherClosedError, match="before it came to this search"):
        waiting.result(5.0)
    echo.gate.set()


def test_no_queries_need_no_search() -> None:
    echo = Echo()
    assert DynamicBatcher(echo.search).submit([], 3).result(0) == []
    assert echo.calls == []


def test_batches_are_observed_with_their_size_and_time() -> None:
    seen: list[tuple[int, float]] = []
    batcher = DynamicBatcher(Echo().search, observe=lambda size, seconds: seen.append((size, seconds)))
    batcher.submit(["a", "b"], 1).result(5.0)
    assert seen[0][0] == 2 and 0 <= seen[0][1] < 5
    assert batcher.busy_s == 0.0


@pytest.mark.parametrize("wrong", [{"max_batch": 0}, {"max_queue": 0}, {"max_wait_ms": -1}, {"max_wait_ms": 1e9}])
def test_rules_out_of_range_are_a_programmers_mistake(wrong: dict[str, int]) -> None:
    with pytest.raises(ConfigError):
        BatchRules(**wrong)


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 9), st.integers(1, 3), st.booleans()), max_size=12),
    st.integers(1, 8),
)
def test_whatever_comes_each_request_gets_its_own_hits_in_order(
    requests: list[tuple[int, int, bool]], max_batch: int
) -> None:
    echo = Echo()
    batcher = DynamicBatcher(echo.search, BatchRules(max_batch=max_batch, max_wait_ms=0))
    asked = []
    for number, (size, top_k, good) in enumerate(requests):
        queries = [f"{'' if good else 'bad '}{number}/{i}" for i in range(size)]
        asked.append((queries, top_k, batcher.submit(queries, top_k)))
    for queries, top_k, future in asked:
        if queries and queries[0].startswith("bad"):
            with pytest.raises(SearchFailedError):
                future.result(5.0)
        else:
            assert titles(future) == [[query] * top_k for query in queries]
    assert all(len(queries) <= max_batch for queries, _ in echo.calls)
    assert batcher.depth == 0 and batcher.close(5.0)
