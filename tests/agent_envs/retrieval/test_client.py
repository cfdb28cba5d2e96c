"""The client against sound servers, and against every kind of unsound one."""

from __future__ import annotations

import copy
import gc
import json
import os
import pickle
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace

import pytest

from agent_envs.data.records import Passage
from agent_envs.errors import ConfigError, RetrievalError, ToolFailureError
from agent_envs.retrieval.base import Retriever
from agent_envs.retrieval.bm25 import Bm25Retriever
from agent_envs.retrieval.client import (
    ClientOptions,
    HttpRetriever,
    RetrievalAnswerError,
    RetrievalTimeoutError,
    RetrievalUnavailableError,
)
from agent_envs.retrieval.server import RetrievalServer, ServedIndex
from tests.agent_envs.retrieval.raw_server import CORPUS, Peer, RawServer, good_result

QUICK = ClientOptions(timeout_s=3.0, retries=2, backoff_s=0.005, cooldown_s=0.05, cache_size=0)
PASSAGES = [Passage(f'The "{n}"', f"A text about number{n}.\nAnd\n\nmore.") for n in range(50)]


def served() -> ServedIndex:
    return ServedIndex(Bm25Retriever(PASSAGES), "bm25", "hash", len(PASSAGES))


def words(client: Retriever, query: str, top_k: int = 2) -> list[str]:
    """What one search through a raw server gave; titles are checked to be those of this very query."""
    (hits,) = client.search([query], top_k)
    assert all(hit.passage.title == query for hit in hits)
    return [hit.passage.text for hit in hits]


def good(peer: Peer) -> None:
    peer.good()


# Sound servers


def test_hits_are_those_of_the_servers_own_retriever() -> None:
    with RetrievalServer(served) as server, HttpRetriever(server.url) as client:
        queries = ["number7", "text about", "", "nothing of the kind", "number7"]
        for top_k in (1, 3, 60):
            assert client.search(queries, top_k) == Bm25Retriever(PASSAGES).search(queries, top_k)
        assert client.search([], 3) == []
        with pytest.raises(ConfigError, match="top_k"):
            client.search(["a"], 0)


def test_a_server_of_search_r1_is_asked_in_its_own_words() -> None:
    with RawServer(good) as server, HttpRetriever(f"{server.url}/retrieve", QUICK) as client:
        assert words(client, "who?", 3) == CORPUS[:3]
        assert server.requests == [{"queries": ["who?"], "topk": 3, "return_scores": True}]


def test_queries_go_once_each_in_requests_of_bounded_size() -> None:
    options = replace(QUICK, max_queries=2, max_query_chars=8)
    with RawServer(good) as server, HttpRetriever(server.url, options) as client:
        found = client.search(["a", "b", "a", "c", "long beyond measure", "half \ud800"], 1)
        asked = ["a", "b", "a", "c", "long bey", "half ?"]
        assert [hits[0].passage.title for hits in found] == asked
        assert [request["queries"] for request in server.requests] == [["a", "b"], ["c", "long bey"], ["half ?"]]


def test_threads_share_connections_and_get_their_own_hits() -> None:
    connections = set()

    def count(peer: Peer) -> None:
        connections.add(peer.connection)
        peer.good()

    wrong = []

    def search(client: HttpRetriever, name: str) -> None:
        for number in range(10):
            if words(client, f"{name}/{number}") != CORPUS[:2]:
                wrong.append(name)

    with RawServer(count) as server, HttpRetriever(server.url, replace(QUICK, max_connections=4)) as client:
        threads = [threading.Thread(target=search, args=(client, f"t{n}")) for n in range(24)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not wrong and len(server.requests) == 240
        assert 1 <= len(connections) <= 4


def test_it_is_hashable_and_survives_copies_pickles_and_close() -> None:
    with RawServer(good) as server:
        client = HttpRetriever(server.url, QUICK)
        assert len({client, client}) == 1
        for twin in (pickle.loads(pickle.dumps(client)), copy.deepcopy(client)):
            assert repr(twin) == repr(client) == f"HttpRetriever('{server.url}')"
            assert words(twin, "a") == CORPUS[:2]
            twin.close()
        assert words(client, "a") == CORPUS[:2]
        client.close()
        assert words(client, "a") == CORPUS[:2]
        client.close()


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_forked_process_opens_connections_of_its_own() -> None:
    with RawServer(good) as server, HttpRetriever(server.url, QUICK) as client:
        words(client, "parent")
        child = os.fork()
        if child == 0:
            try:
                fine = words(client, "child") == CORPUS[:2]
            finally:
                os._exit(0 if fine else 1)
        for number in range(20):
            words(client, f"parent {number}")
        assert os.waitpid(child, 0)[1] == 0
        assert {"child", "parent 19"} <= {request["queries"][0] for request in server.requests}


@pytest.mark.parametrize(
    "url", ["", "127.0.0.1:8000", "ftp://host", "http://", "http://a b", "http://h:x", "http://h?x=1", "http://h:99999"]
)
def test_a_url_that_is_none_is_a_programmers_mistake(url: str) -> None:
    with pytest.raises(ConfigError, match="the URL of a retrieval server"):
        HttpRetriever(url)


def test_options_out_of_range_are_a_programmers_mistake() -> None:
    for wrong in ({"timeout_s": 0}, {"retries": -1}, {"max_connections": 0}, {"cache_size": -1}, {"max_queries": 0}):
        with pytest.raises(ConfigError, match=next(iter(wrong))):
            ClientOptions(**wrong)  # type: ignore[arg-type]


# Servers that lie


def body(text: bytes) -> Callable[[Peer], None]:
    return lambda peer: peer.respond(text)


def changed(change: Callable[[dict[str, list[list[dict[str, object]]]]], None]) -> Callable[[Peer], None]:
    """A good result, but for one thing."""

    def behave(peer: Peer) -> None:
        result = good_result(peer.asked)
        change(result)
        peer.respond(json.dumps(result).encode())

    return behave


LIES: dict[str, tuple[Callable[[Peer], None], str]] = {
    "too few lists": (changed(lambda r: r["result"].pop()), "0 lists of hits for 1 queries"),
    "too many lists": (changed(lambda r: r["result"].append([])), "2 lists"),
    "too many hits": (changed(lambda r: r["result"][0].extend(r["result"][0])), "4 hits, not at most 2"),
    "a score of NaN": (changed(lambda r: r["result"][0][0].update(score=float("nan"))), "NaN"),
    "no document": (changed(lambda r: r["result"][0][0].update(document=None)), "an object"),
    "truncated JSON": (body(b'{"result": [[{"document"'), "not JSON"),
    "invalid UTF-8": (body(b'{"result": [["\xff"]]}'), "UTF-8"),
    "HTML": (body(b"<html>"), "not JSON"),
    "nothing": (body(b""), "not JSON"),
    "5 MB": (body(b" " * 5_000_000), "longer than 4194304 bytes"),
    "no HTTP": (lambda peer: (peer.send(b"\x00\x01\x02 garbage\r\n\r\n"), peer.close())[1], "does not speak HTTP"),
    "status 500": (lambda peer: peer.respond(b"oops \xff", "500 Internal Server Error"), "status 500: oops"),
    "status 404": (lambda peer: peer.respond(b"", "404 Not Found"), "status 404"),
    "a redirect": (lambda peer: peer.respond(b"", "302 Found", "location: http://x/\r\n"), "status 302"),
    "compression": (lambda peer: peer.good("content-encoding: gzip\r\n"), "compressed"),
}


@pytest.mark.parametrize("lie", LIES)
def test_a_lie_is_a_typed_error_at_once_and_the_next_search_is_fine(lie: str) -> None:
    behave, complaint = LIES[lie]
    with RawServer(behave) as server, HttpRetriever(server.url, QUICK) as client:
        with pytest.raises(RetrievalAnswerError, match=complaint) as caught:
            client.search(["a"], 2)
        assert isinstance(caught.value, RetrievalError | ToolFailureError)
        assert len(server.requests) == 1
        server.behave = good
        assert words(client, "a") == CORPUS[:2]


# Servers that are slow


def drip_body(peer: Peer) -> None:
    text = json.dumps(good_result(peer.asked)).encode()
    peer.send(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % len(text))
    peer.drip(text)


SLOW: dict[str, Callable[[Peer], None]] = {
    "hangs": lambda peer: peer.hang(),
    "drips its headers": lambda peer: peer.drip(b"HTTP/1.1 200 OK\r\n" + b"x-filler: 1\r\n" * 50),
    "drips its body": drip_body,
    "stops in its body": lambda peer: (peer.send(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n{"), peer.hang())[1],
    "sends chunks for ever": lambda peer: (
        peer.send(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"),
        peer.drip(b"1\r\n \r\n" * 100),
    )[1],
}


@pytest.mark.parametrize("kind", SLOW)
def test_a_slow_server_costs_no_more_than_the_deadline(kind: str) -> None:
    with RawServer(SLOW[kind]) as server, HttpRetriever(server.url, replace(QUICK, timeout_s=0.2)) as client:
        start = time.monotonic()
        with pytest.raises(RetrievalTimeoutError, match="within the search's deadline"):
            client.search(["a"], 2)
        assert 0.15 <= time.monotonic() - start < 1.0
        server.behave = good
        assert words(client, "a") == CORPUS[:2]


def test_waiting_for_a_connection_is_part_of_the_deadline() -> None:
    with RawServer(lambda peer: peer.hang()) as server:
        client = HttpRetriever(server.url, replace(QUICK, timeout_s=0.2, max_connections=1))
        errors = []

        def search() -> None:
            start = time.monotonic()
            with pytest.raises(RetrievalTimeoutError):
                client.search(["a"], 2)
            errors.append(time.monotonic() - start)

        threads = [threading.Thread(target=search) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(errors) == 3 and max(errors) < 1.0
        server.behave = good
        assert words(client, "a") == CORPUS[:2]


# Servers that are busy, break off, or are not there


def first(*behaviours: Callable[[Peer], None]) -> Callable[[Peer], None]:
    """One after the other; after that, all is well."""
    waiting = list(behaviours)
    return lambda peer: waiting.pop(0)(peer) if waiting else peer.good()


def break_off(peer: Peer) -> None:
    peer.send(b'HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{"res')
    peer.close()


def busy(status: str, headers: str = "") -> Callable[[Peer], None]:
    return lambda peer: peer.respond(b'{"detail": "too busy"}', status, headers)


@pytest.mark.parametrize(
    "failure",
    [
        busy("429 Too Many Requests", "retry-after: 0\r\n"),
        busy("429 Too Many Requests", "retry-after: Wed, 21 Oct 2015 07:28:00 GMT\r\n"),
        busy("502 Bad Gateway"),
        busy("503 Service Unavailable"),
        busy("504 Gateway Timeout"),
        break_off,
        lambda peer: peer.close(),
    ],
)
def test_what_may_pass_is_tried_again(failure: Callable[[Peer], None]) -> None:
    with RawServer(first(failure, failure)) as server, HttpRetriever(server.url, QUICK) as client:
        assert words(client, "a") == CORPUS[:2]
        assert len(server.requests) == 3


@pytest.mark.parametrize("failure", [busy("503 Service Unavailable"), break_off])
def test_retries_are_bounded(failure: Callable[[Peer], None]) -> None:
    with RawServer(failure) as server, HttpRetriever(server.url, QUICK) as client:
        with pytest.raises(RetrievalUnavailableError, match=r"503.*too busy|broke the connection off"):
            client.search(["a"], 2)
        assert len(server.requests) == 1 + QUICK.retries


def test_a_wait_that_the_deadline_forbids_is_not_begun() -> None:
    with (
        RawServer(busy("429 Too Many Requests", "retry-after: 60\r\n")) as server,
        HttpRetriever(server.url, QUICK) as client,
    ):
        start = time.monotonic()
        with pytest.raises(RetrievalUnavailableError, match="status 429"):
            client.search(["a"], 2)
        assert time.monotonic() - start < 1.0 and len(server.requests) == 1


def test_a_server_that_asks_for_a_second_gets_it() -> None:
    with (
        RawServer(first(busy("503 Service Unavailable", "retry-after: 1\r\n"))) as server,
        HttpRetriever(server.url, QUICK) as client,
    ):
        start = time.monotonic()
        assert words(client, "a") == CORPUS[:2]
        assert 1.0 <= time.monotonic() - start < 3.0


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def test_a_dead_port_and_an_unknown_host_are_unavailable() -> None:
    for url in (f"http://127.0.0.1:{free_port()}", "http://no-such-host.invalid:8000"):
        with HttpRetriever(url, QUICK) as client, pytest.raises(RetrievalUnavailableError, match="ConnectError"):
            client.search(["a"], 2)


def test_a_server_that_restarts_is_found_again() -> None:
    with RawServer(good) as server:
        client = HttpRetriever(server.url, QUICK)
        assert words(client, "before") == CORPUS[:2]
    with pytest.raises(RetrievalUnavailableError):
        client.search(["meanwhile"], 2)
    with RawServer(good, port=server.port):
        assert words(client, "after") == CORPUS[:2]
    starting = threading.Timer(0.1, lambda: again.append(RawServer(good, port=server.port)))
    again: list[RawServer] = []
    starting.start()
    patient = HttpRetriever(server.url, replace(QUICK, retries=50, backoff_s=0.02, failures_to_open=100))
    assert words(patient, "while it starts") == CORPUS[:2]
    starting.join()
    again[0].stop()


# The circuit breaker


def test_a_dead_server_costs_later_searches_nothing_until_it_lives_again() -> None:
    options = replace(QUICK, failures_to_open=3, cooldown_s=0.2)
    with RawServer(break_off, health=lambda peer: peer.close()) as server, HttpRetriever(server.url, options) as client:
        for _ in range(10):
            with pytest.raises(RetrievalUnavailableError):
                client.search(["a"], 2)
        assert len(server.requests) == 3 and server.probes == 1
        with pytest.raises(RetrievalUnavailableError, match="shows no sign of life"):
            client.search(["a"], 2)
        server.behave, server.health = good, lambda peer: peer.respond(b"{}")
        time.sleep(0.25)
        assert words(client, "a") == CORPUS[:2]
        assert server.probes == 2


def test_poisonous_queries_do_not_shut_a_living_server_off() -> None:
    def poison(peer: Peer) -> None:
        peer.close() if peer.asked["queries"] == ["poison"] else peer.good()

    with RawServer(poison) as server, HttpRetriever(server.url, replace(QUICK, failures_to_open=3)) as client:
        for _ in range(5):
            with pytest.raises(RetrievalUnavailableError, match="broke the connection off"):
                client.search(["poison"], 2)
            assert words(client, "a") == CORPUS[:2]
        for _ in range(5):
            with pytest.raises(RetrievalUnavailableError, match="broke the connection off"):
                client.search(["poison"], 2)
        assert server.probes >= 4  # one for each three failures in a row; 404 is a sign of life


# The cache


def test_known_hits_are_given_without_asking() -> None:
    with RawServer(good) as server, HttpRetriever(server.url, replace(QUICK, cache_size=3)) as client:
        known = client.search(["a", "b"], 2)
        assert client.search(["b", "a", "c"], 2)[:2] == known[::-1]
        assert [request["queries"] for request in server.requests] == [["a", "b"], ["c"]]
        client.search(["a"], 3)
        assert server.requests[-1]["topk"] == 3
        client.search(["a"], 2)[0].clear()  # the caller's own list
        assert client.search(["a"], 2)[0]


def test_a_server_with_another_corpus_is_believed_about_everything() -> None:
    texts = {"hash": "one"}

    def behave(peer: Peer) -> None:
        peer.good(f"X-Corpus-Hash: {texts['hash']}\r\n")

    with RawServer(behave) as server, HttpRetriever(server.url, replace(QUICK, cache_size=100)) as client:
        words(client, "a")
        words(client, "b")
        texts["hash"] = "two"
        words(client, "c")
        words(client, "a")
        words(client, "c")
        assert [request["queries"] for request in server.requests] == [["a"], ["b"], ["c"], ["a"]]


def test_what_was_kept_too_long_is_asked_for_again() -> None:
    options = replace(QUICK, cache_size=100, cache_check_s=0.05)
    with RawServer(good) as server, HttpRetriever(server.url, options) as client:
        words(client, "a")
        time.sleep(0.1)
        words(client, "a")
        words(client, "a")
        assert len(server.requests) == 2


def test_failures_are_not_kept() -> None:
    with RawServer(first(body(b"{}"))) as server, HttpRetriever(server.url, replace(QUICK, cache_size=9)) as client:
        with pytest.raises(RetrievalAnswerError):
            client.search(["a"], 2)
        assert words(client, "a") == CORPUS[:2]


def test_no_connection_is_left_open() -> None:
    with RawServer(first(break_off, body(b""), *SLOW.values())) as server:
        client = HttpRetriever(server.url, replace(QUICK, timeout_s=0.1, retries=0))
        for _ in range(8):
            try:
                client.search(["a"], 2)
            except RetrievalError:
                continue
        del client
        gc.collect()  # an open socket would be a ResourceWarning, which is an error here


def test_a_process_that_never_closes_its_client_ends_quietly() -> None:
    program = "import sys; from agent_envs.retrieval.client import HttpRetriever as H; H(sys.argv[1]).search(['a'], 1)"
    kept = program.replace("H(sys.argv[1])", "(kept := H(sys.argv[1]))")
    with RawServer(good) as server:
        for each in (program, kept):
            command = [sys.executable, "-W", "error", "-c", each, server.url]
            ended = subprocess.run(command, capture_output=True, text=True, check=True)
            assert ended.stderr == ""
