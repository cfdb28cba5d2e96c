"""What is kept of a server's hits, and when it goes."""

from __future__ import annotations

from agent_envs.data.records import Passage
from agent_envs.retrieval.base import Hit
from agent_envs.retrieval.client_cache import HitCache


def hits(name: str) -> tuple[Hit, ...]:
    return (Hit(Passage(name, ""), 1.0),)


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_hits_are_kept_by_query_and_number() -> None:
    cache = HitCache(size=10, check_s=30.0)
    cache.store("c", {"a": hits("a3"), "b": hits("b3")}, 3)
    cache.store("c", {"a": hits("a5")}, 5)
    assert cache.lookup(["a", "b", "z"], 3) == {"a": hits("a3"), "b": hits("b3")}
    assert cache.lookup(["a", "b"], 5) == {"a": hits("a5")}


def test_the_least_recently_used_goes_first() -> None:
    cache = HitCache(size=2, check_s=30.0)
    cache.store("c", {"a": hits("a"), "b": hits("b")}, 3)
    cache.lookup(["a"], 3)
    cache.store("c", {"d": hits("d")}, 3)
    assert list(cache.lookup(["a", "b", "d"], 3)) == ["a", "d"]
    assert len(cache) == 2


def test_another_corpus_empties_it() -> None:
    cache = HitCache(size=10, check_s=30.0)
    cache.store("old", {"a": hits("a"), "b": hits("b")}, 3)
    cache.store("new", {"b": hits("new b")}, 3)
    assert cache.lookup(["a", "b"], 3) == {"b": hits("new b")}
    assert len(cache) == 1


def test_now_and_then_the_server_must_be_heard() -> None:
    clock = Clock()
    cache = HitCache(size=10, check_s=30.0, clock=clock)
    cache.store("c", {"a": hits("a")}, 3)
    clock.now = 30.0
    assert cache.lookup(["a"], 3)
    clock.now = 30.1
    assert cache.lookup(["a"], 3) == {}
    cache.store("c", {"b": hits("b")}, 3)
    assert set(cache.lookup(["a", "b"], 3)) == {"a", "b"}


def test_size_zero_keeps_nothing() -> None:
    cache = HitCache(size=0, check_s=30.0)
    cache.store("c", {"a": hits("a")}, 3)
    assert cache.lookup(["a"], 3) == {} and len(cache) == 0
