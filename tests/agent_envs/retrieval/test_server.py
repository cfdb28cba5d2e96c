"""The server: Search-R1's protocol in every combination, limits, batches, failures, and the end."""

from __future__ import annotations

import http.client
import json
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest

from agent_envs.data.records import Passage
from agent_envs.errors import ConfigError, DataError
from agent_envs.retrieval.base import Hit
from agent_envs.retrieval.batching import BatchRules
from agent_envs.retrieval.bm25 import Bm25Retriever
from agent_envs.retrieval.client import ClientOptions, HttpRetriever
from agent_envs.retrieval.server import RetrievalServer, ServedIndex, ServerOptions

PASSAGES = [Passage(f"Title {n}", f"text number{n}\nof many") for n in range(20)]


class Scripted:
    """Finds the query itself; some queries do other things. Counts its calls."""

    def __init__(self) -> None:
        self.calls: list[list[str]] = []
        self.gate = threading.Event()
        self.gate.set()
        self.begun = threading.Event()

    def search(self, queries: Sequence[str], top_k: int) -> list[list[Hit]]:
        self.calls.append(list(queries))
        if "wait" in queries:
            self.begun.set()
            assert self.gate.wait(5.0)
        if "crash" in queries:
            raise LookupError("no such index")
        if "exit" in queries:
            sys.exit(3)
        score = float("nan") if "nan" in queries else 0.5
        return [[Hit(Passage(query, f"rank {rank}"), score) for rank in range(top_k)] for query in queries]


def ask(server: RetrievalServer, body: Any, method: str = "POST", path: str = "/retrieve") -> tuple[int, Any]:
    """Status and body of an answer; JSON is read."""
    status, _, text = exchange(server, body if isinstance(body, bytes) else json.dumps(body).encode(), method, path)
    return status, json.loads(text)


def exchange(
    server: RetrievalServer, body: bytes = b"", method: str = "GET", path: str = "/health"
) -> tuple[int, dict[str, str], str]:
    connection = http.client.HTTPConnection(server.host, server.port, timeout=5.0)
    try:
        connection.request(method, path, body, {"content-type": "application/json"})
        response = connection.getresponse()
        headers = {name.lower(): value for name, value in response.getheaders()}
        return response.status, headers, response.read().decode()
    finally:
        connection.close()


def bm25() -> ServedIndex:
    return ServedIndex(Bm25Retriever(PASSAGES), "bm25", "abc123", len(PASSAGES))


@pytest.fixture(scope="module")
def server() -> Iterator[RetrievalServer]:
    with RetrievalServer(bm25, options=ServerOptions(max_top_k=30, max_queries=10, max_query_chars=50)) as running:
        yield running


# The protocol

DOCUMENTS = [{"title": f"Title {n}", "contents": f'"Title {n}"\ntext number{n}\nof many'} for n in range(20)]


def without_ids(documents: list[dict[str, str]]) -> list[dict[str, str]]:
    assert all(document["id"].startswith(document["title"]) for document in documents)
    return [{name: value for name, value in document.items() if name != "id"} for document in documents]


@pytest.mark.parametrize("topk", [None, 1, 2, 30])
@pytest.mark.parametrize("queries", [[], ["number7"], ["number7", "many"], ["no word of it"], ["", "number1", ""]])
def test_every_combination_with_and_without_scores(
    server: RetrievalServer, queries: list[str], topk: int | None
) -> None:
    expected = Bm25Retriever(PASSAGES).search(queries, topk or 3)
    asked = {"queries": queries} if topk is None else {"queries": queries, "topk": topk}
    status, scored = ask(server, {**asked, "return_scores": True})
    assert status == 200 and set(scored) == {"result"} and len(scored["result"]) == len(queries)
    for entries, hits in zip(scored["result"], expected, strict=True):
        assert [entry["score"] for entry in entries] == [hit.score for hit in hits]
        documents = without_ids([entry["document"] for entry in entries])
        assert documents == [DOCUMENTS[PASSAGES.index(hit.passage)] for hit in hits]
        assert all(set(entry) == {"document", "score"} for entry in entries)
    bare = [[entry["document"] for entry in entries] for entries in scored["result"]]
    assert ask(server, asked) == (200, {"result": bare})
    assert ask(server, {**asked, "return_scores": False, "topk": topk}) == (200, {"result": bare})


def test_search_r1s_client_reads_titles_and_texts(server: RetrievalServer) -> None:
    _, answer = ask(server, {"queries": ["number7"], "topk": 1, "return_scores": True})
    lines = answer["result"][0][0]["document"]["contents"].split("\n")
    assert lines[0] == '"Title 7"' and "\n".join(lines[1:]) == "text number7\nof many"


@pytest.mark.parametrize(
    "body, status, complaint",
    [
        ({}, 422, "queries"),
        ({"queries": "one"}, 422, "valid list"),
        ({"queries": [1]}, 422, "valid string"),
        ({"queries": None}, 422, "valid list"),
        ({"queries": ["a"], "topk": 0}, 422, r"topk.*\[1, 30\], got 0"),
        ({"queries": ["a"], "topk": -1}, 422, "got -1"),
        ({"queries": ["a"], "topk": 31}, 422, "got 31"),
        ({"queries": ["a"], "topk": 1.5}, 422, "topk.*valid integer"),
        ({"queries": ["a"], "topk": 10**30}, 422, "topk"),
        ({"queries": ["a"], "return_scores": "perhaps"}, 422, "return_scores.*boolean"),
        ({"queries": ["a"] * 11}, 422, "at most 10 queries in a request, got 11"),
        ({"queries": ["a", "b" * 51]}, 422, "at most 50 characters, query 1 has 51"),
        ({"queries": ["a", "\ud800"]}, 422, "query 1 has half of a surrogate pair"),
        ([], 422, "body"),
        (b"", 422, "body"),
        (b"{", 422, "JSON"),
        (b"\x80{}", 400, "parsing the body"),
        (b"[" * 100_000, 400, "parsing the body"),
    ],
)
def test_a_wrong_request_is_told_what_is_wrong(server: RetrievalServer, body: Any, status: int, complaint: str) -> None:
    got, answer = ask(server, body)
    assert got == status and re.search(complaint, json.dumps(answer["detail"])), answer
    assert ask(server, {"queries": ["number1"]})[0] == 200


def test_a_body_too_large_is_not_read_to_its_end() -> None:
    with RetrievalServer(bm25, options=ServerOptions(max_body_bytes=1000)) as server:
        status, answer = ask(server, {"queries": ["a" * 900]})
        assert status == 200
        status, answer = ask(server, {"queries": ["a" * 2000]})
        assert status == 413 and "at most 1000 bytes" in answer["detail"]


def test_unknown_paths_and_methods_are_refused(server: RetrievalServer) -> None:
    assert ask(server, b"", "POST", "/search")[0] == 404
    assert ask(server, b"", "GET", "/retrieve")[0] == 405


# Health and metrics


def test_health_says_what_is_served(server: RetrievalServer) -> None:
    expected = {"status": "ready", "kind": "bm25", "corpus_hash": "abc123", "count": 20, "queue_depth": 0}
    assert ask(server, b"", "GET", "/health") == (200, expected)


def test_an_answer_names_its_corpus(server: RetrievalServer) -> None:
    _, headers, _ = exchange(server, b'{"queries": ["number1"]}', "POST", "/retrieve")
    assert headers["x-corpus-hash"] == "abc123" and headers["content-type"] == "application/json"


def test_metrics_count_requests_queries_batches_and_errors() -> None:
    scripted = Scripted()
    with RetrievalServer(lambda: ServedIndex(scripted)) as server:
        assert ask(server, {"queries": ["a", "b", "c"]})[0] == 200
        assert ask(server, {"queries": ["crash"]})[0] == 500
        assert ask(server, {"queries": 5})[0] == 422
        _, headers, page = exchange(server, path="/metrics")
    assert headers["content-type"].startswith("text/plain; version=0.0.4")
    values = dict(line.rsplit(" ", 1) for line in page.splitlines() if not line.startswith("#"))
    prefix = "agentr1_retrieval_"
    assert {name: values[f'{prefix}requests_total{{status="{name}"}}'] for name in ("200", "422", "500")} == {
        "200": "1",
        "422": "1",
        "500": "1",
    }
    assert values[f'{prefix}errors_total{{kind="retriever"}}'] == "1"
    assert values[f"{prefix}request_queries_sum"] == "4.0" and values[f"{prefix}request_queries_count"] == "2"
    assert values[f'{prefix}batch_queries_bucket{{le="1"}}'] == "1"
    assert (
        values[f'{prefix}batch_queries_bucket{{le="4"}}'] == values[f'{prefix}batch_queries_bucket{{le="+Inf"}}'] == "2"
    )
    assert values[f"{prefix}request_seconds_count"] == "3" and values[f"{prefix}search_seconds_count"] == "2"
    assert values[f"{prefix}queue_depth"] == "0" and values[f"{prefix}ready"] == "1"


# Batches


def test_single_queries_of_many_threads_are_searched_in_batches_and_each_gets_its_own() -> None:
    scripted = Scripted()
    options = ServerOptions(BatchRules(max_batch=32, max_wait_ms=300))
    wrong: list[str] = []
    with (
        RetrievalServer(lambda: ServedIndex(scripted), options=options) as server,
        HttpRetriever(server.url, ClientOptions(cache_size=0)) as client,
    ):
        together = threading.Barrier(64)

        def search(name: str) -> None:
            together.wait()
            (hits,) = client.search([name], 2)
            if [(hit.passage.title, hit.passage.text) for hit in hits] != [(name, "rank 0"), (name, "rank 1")]:
                wrong.append(name)

        threads = [threading.Thread(target=search, args=(f"query {n}",)) for n in range(64)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    batches = [calls for calls in scripted.calls if calls != ["ready?"]]
    assert not wrong
    assert sorted(query for calls in batches for query in calls) == sorted(f"query {n}" for n in range(64))
    assert len(batches) <= 8 and max(len(calls) for calls in batches) <= 32


def in_background(server: RetrievalServer, body: Any) -> tuple[threading.Thread, list[tuple[int, Any]]]:
    answers: list[tuple[int, Any]] = []
    thread = threading.Thread(target=lambda: answers.append(ask(server, body)))
    thread.start()
    return thread, answers


def until(condition: Any) -> None:
    deadline = time.monotonic() + 5.0
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def test_a_failure_is_one_requests_500_and_the_others_of_its_batch_are_answered() -> None:
    scripted = Scripted()
    with RetrievalServer(lambda: ServedIndex(scripted)) as server:
        scripted.gate.clear()
        held = in_background(server, {"queries": ["wait"]})
        assert scripted.begun.wait(5.0)
        asked = [
            in_background(server, {"queries": [query], "return_scores": True})
            for query in ("a", "crash", "b", "exit", "nan")
        ]
        until(lambda: server.service.batcher is not None and server.service.batcher.depth == 5)
        scripted.gate.set()
        for thread, _ in [held, *asked]:
            thread.join()
        statuses = [answers[0][0] for _, answers in asked]
        details = [answers[0][1].get("detail", "") for _, answers in asked]
        assert statuses == [200, 500, 200, 500, 500]
        assert details[1] == "the search failed (LookupError: no such index)"
        assert "SystemExit" in details[3] and "ValueError" in details[4]
        assert ask(server, {"queries": ["after"]})[0] == 200


def test_a_full_queue_is_429_with_a_time_to_wait() -> None:
    scripted = Scripted()
    options = ServerOptions(BatchRules(max_queue=2), max_queries=2)
    with RetrievalServer(lambda: ServedIndex(scripted), options=options) as server:
        scripted.gate.clear()
        held = in_background(server, {"queries": ["wait"]})
        assert scripted.begun.wait(5.0)
        waiting = in_background(server, {"queries": ["a", "b"]})
        until(lambda: server.service.batcher is not None and server.service.batcher.depth == 2)
        status, headers, text = exchange(server, b'{"queries": ["c"]}', "POST", "/retrieve")
        assert status == 429 and headers["retry-after"] == "1" and "2 queries wait already" in text
        scripted.gate.set()
        for thread, answers in (held, waiting):
            thread.join()
            assert answers[0][0] == 200


def test_a_search_that_takes_too_long_is_504_and_shows_in_the_health() -> None:
    scripted = Scripted()
    options = ServerOptions(search_timeout_s=0.1, drain_s=1.0)
    with RetrievalServer(lambda: ServedIndex(scripted), options=options) as server:
        scripted.gate.clear()
        status, answer = ask(server, {"queries": ["wait"]})
        assert status == 504 and "within 0.1 s" in answer["detail"]
        until(lambda: ask(server, b"", "GET", "/health") == (500, {**HEALTH, "status": "stalled"}))
        scripted.gate.set()
        until(lambda: ask(server, b"", "GET", "/health") == (200, HEALTH))


HEALTH = {"status": "ready", "kind": "", "corpus_hash": "", "count": 0, "queue_depth": 0}


# Beginning and end


def test_until_the_index_is_loaded_searches_are_503() -> None:
    may_load = threading.Event()

    def load() -> ServedIndex:
        assert may_load.wait(5.0)
        return bm25()

    server = RetrievalServer(load)
    thread = threading.Thread(target=server.run)
    thread.start()
    status, headers, text = exchange(server)
    assert status == 503 and json.loads(text) == {"status": "loading"} and headers["retry-after"] == "1"
    status, answer = ask(server, {"queries": ["number1"]})
    assert status == 503 and "loading" in answer["detail"]
    may_load.set()
    until(lambda: exchange(server)[0] == 200)
    assert ask(server, {"queries": ["number1"]})[0] == 200
    server.stop()
    thread.join()


def test_an_index_that_cannot_be_loaded_ends_the_server_with_its_error() -> None:
    def load() -> ServedIndex:
        raise DataError("the folder is empty")

    with pytest.raises(DataError, match="the folder is empty"), RetrievalServer(load):
        pytest.fail("it came up")
    with pytest.raises(DataError, match="the folder is empty"):
        RetrievalServer(load).run()


def test_a_port_in_use_is_a_programmers_mistake(server: RetrievalServer) -> None:
    with pytest.raises(ConfigError, match=f"cannot listen at 127.0.0.1:{server.port}"):
        RetrievalServer(bm25, port=server.port)
    with pytest.raises(ConfigError, match="not 70000"):
        RetrievalServer(bm25, port=70000)


def test_options_that_contradict_each_other_are_a_programmers_mistake() -> None:
    for wrong in (
        {"default_top_k": 200},
        {"max_queries": 10_000},
        {"search_timeout_s": 0},
        {"max_body_bytes": 0},
    ):
        with pytest.raises(ConfigError, match=next(iter(wrong))):
            replace(ServerOptions(), **wrong)  # type: ignore[arg-type]


SLOW_SERVER = """
import sys, time
from agent_envs.data.records import Passage
from agent_envs.retrieval.base import Hit
from agent_envs.retrieval.server import ServedIndex, serve

class Slow:
    def search(self, queries, top_k):
        if queries == ["slow"]:
            print("searching", flush=True)
            time.sleep(0.4)
        return [[Hit(Passage("found", query), 1.0)] for query in queries]

serve(lambda: ServedIndex(Slow()), port=0, announce=lambda server: print(server.port, flush=True))
"""


def test_sigterm_lets_what_is_under_way_be_answered() -> None:
    process = subprocess.Popen([sys.executable, "-c", SLOW_SERVER], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        url = f"http://127.0.0.1:{process.stdout.readline().strip()}"
        with HttpRetriever(url, ClientOptions(retries=100, backoff_s=0.05)) as client:
            client.search(["warm"], 1)
            found: list[str] = []
            thread = threading.Thread(target=lambda: found.append(client.search(["slow"], 1)[0][0].passage.text))
            thread.start()
            assert process.stdout.readline() == "searching\n"
            process.send_signal(signal.SIGTERM)
            thread.join()
            assert found == ["slow"]
        assert process.wait(5.0) in (0, -signal.SIGTERM)
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def test_a_stopped_server_leaves_no_thread_and_frees_its_port() -> None:
    before = set(threading.enumerate())
    with RetrievalServer(bm25) as server:
        assert ask(server, {"queries": ["number1"]})[0] == 200
    until(lambda: not set(threading.enumerate()) - before)
    with RetrievalServer(bm25, port=server.port) as again:
        assert ask(again, {"queries": ["number1"]})[0] == 200
