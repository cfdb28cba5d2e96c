"""Reciprocal rank fusion by hand-worked sums."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from agent_envs.data.records import Passage
from agent_envs.errors import ConfigError
from agent_envs.retrieval.base import Hit
from agent_envs.retrieval.hybrid import HybridRetriever

A, B, C, D = (Passage(name, f"text of {name}") for name in "ABCD")


class Ranking:
    """A retriever that gives one ranking, whatever is asked."""

    def __init__(self, *passages: Passage) -> None:
        self.passages = passages
        self.asked: list[tuple[Sequence[str], int]] = []

    def search(self, queries: Sequence[str], top_k: int) -> list[list[Hit]]:
        self.asked.append((queries, top_k))
        return [[Hit(passage, 1.0) for passage in self.passages[:top_k]] for _ in queries]


def test_scores_are_sums_of_reciprocal_ranks() -> None:
    # B: 1/62 + 1/61; A: 1/61 + 1/63; C: 1/63; D: 1/62 -> B, A, D, C
    (hits,) = HybridRetriever([Ranking(A, B, C), Ranking(B, D, A)]).search(["q"], 10)
    assert [hit.passage for hit in hits] == [B, A, D, C]
    assert [hit.score for hit in hits] == pytest.approx([1 / 62 + 1 / 61, 1 / 61 + 1 / 63, 1 / 62, 1 / 63])


def test_of_equal_passages_the_one_of_the_earlier_retriever_comes_first() -> None:
    first, second = Ranking(A, C), Ranking(B, D)
    assert [hit.passage for hit in HybridRetriever([first, second]).search(["q"], 4)[0]] == [A, B, C, D]
    assert [hit.passage for hit in HybridRetriever([second, first]).search(["q"], 4)[0]] == [B, A, D, C]


def test_a_passage_that_a_ranking_repeats_counts_once() -> None:
    (hits,) = HybridRetriever([Ranking(A, A, B), Ranking(B)]).search(["q"], 3)
    assert [(hit.passage, hit.score) for hit in hits] == [(B, 1 / 62 + 1 / 61), (A, 1 / 61)]


def test_passages_of_one_title_stay_apart() -> None:
    other = Passage("A", "another text")
    (hits,) = HybridRetriever([Ranking(A), Ranking(other)]).search(["q"], 3)
    assert [hit.passage for hit in hits] == [A, other]


def test_each_retriever_is_asked_once_for_the_whole_batch_and_deep_enough() -> None:
    rankings = [Ranking(A), Ranking(B)]
    found = HybridRetriever(rankings, depth=7).search(["q", "r"], 2)
    assert len(found) == 2
    assert [ranking.asked for ranking in rankings] == [[(["q", "r"], 7)]] * 2
    HybridRetriever(rankings, depth=7).search(["q"], 9)
    assert rankings[0].asked[-1] == (["q"], 9)


def test_what_nobody_finds_is_an_empty_list() -> None:
    assert HybridRetriever([Ranking(), Ranking()]).search(["q"], 2) == [[]]
    assert HybridRetriever([Ranking(A), Ranking(B)]).search([], 2) == []


def test_wrong_numbers_are_refused() -> None:
    with pytest.raises(ConfigError, match="at least 2 retrievers, got 1"):
        HybridRetriever([Ranking(A)])
    with pytest.raises(ConfigError, match="top_k: expected at least 1, got 0"):
        HybridRetriever([Ranking(A), Ranking(B)]).search(["q"], 0)
