"""BM25 against the formula written out, its order of ties, and queries that match nothing."""

from __future__ import annotations

import logging
import math
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_envs.data.corpus import read_corpus
from agent_envs.data.records import Passage
from agent_envs.errors import ConfigError, DataError, UnknownNameError
from agent_envs.retrieval import RETRIEVERS
from agent_envs.retrieval.bm25 import Bm25Retriever, search_words

CORPUS = (
    Passage("Ada Roe", "Ada Roe is a writer. Roe was born in Élan."),
    Passage("Ashes", "Ashes is a novel by Ada Roe."),
    Passage("Élan", "Élan is a town; a town in the north, by the sea."),
    Passage("Marsh Film", "A film of the novel Ashes, made in the north."),
    Passage("Blank", ""),
)
WORDS = sorted({word for p in CORPUS for word in search_words(f"{p.title} {p.text}")})


def titles(retriever: Bm25Retriever, query: str, top_k: int = 5) -> list[str]:
    return [hit.passage.title for hit in retriever.search([query], top_k)[0]]


def written_out(query: str, k1: float = 1.5, b: float = 0.75) -> list[tuple[str, float]]:
    documents = [search_words(f"{p.title} {p.text}") for p in CORPUS]
    mean_length = sum(map(len, documents)) / len(documents)
    scored = []
    for passage, words in zip(CORPUS, documents, strict=True):
        score = 0.0
        for word in search_words(query):
            df = sum(word in other for other in documents)
            idf = math.log(1 + (len(documents) - df + 0.5) / (df + 0.5))
            tf = words.count(word)
            score += idf * tf / (tf + k1 * (1 - b + b * len(words) / mean_length))
        scored.append((passage.title, score))
    return sorted((pair for pair in scored if pair[1] > 0), key=lambda pair: -pair[1])


@given(st.lists(st.sampled_from([*WORDS, "unknown"]), min_size=1, max_size=4).map(" ".join))
def test_scores_and_ranking_equal_the_formula(query: str) -> None:
    hits = Bm25Retriever(CORPUS).search([query], 5)[0]
    expected = written_out(query)
    assert [hit.score for hit in hits] == pytest.approx([score for _, score in expected], rel=1e-5)
    assert dict(expected) == pytest.approx({hit.passage.title: hit.score for hit in hits}, rel=1e-5)


def test_a_score_worked_out_by_hand() -> None:
    # df("town") = 1 of 2, so idf = ln(1 + 1.5 / 1.5) = ln 2; tf = 2, |d| = 3 and avg|d| = 2.5:
    # ln 2 * 2 / (2 + 1.5 * (0.25 + 0.75 * 1.2)) = 0.6931 * 2 / 3.725 = 0.37216
    retriever = Bm25Retriever([Passage("A", "town town"), Passage("B", "sea")])
    (hit,) = retriever.search(["town"], 3)[0]
    assert hit.passage.title == "A"
    assert hit.score == pytest.approx(0.37216, abs=1e-5)


def test_titles_are_searched_too() -> None:
    assert titles(Bm25Retriever(CORPUS), "Marsh") == ["Marsh Film"]
    assert titles(Bm25Retriever(CORPUS), "blank") == ["Blank"]


def test_case_accents_and_punctuation_do_not_matter() -> None:
    retriever = Bm25Retriever(CORPUS)
    assert (
        titles(retriever, "ELAN!")
        == titles(retriever, "e\u0301lan")
        == titles(retriever, "“Élan”")
        == ["Élan", "Ada Roe"]
    )
    assert search_words("O'Neill's snake_case İstanbul Straße ﬁlm ½ 東京") == [
        "o", "neill", "s", "snake", "case", "istanbul", "strasse", "film", "1", "2", "東京",
    ]  # fmt: skip


def test_ties_keep_the_order_of_the_corpus_at_every_cut() -> None:
    twins = [Passage(str(i), "same words") for i in range(50)]
    twins[40] = Passage("40", "same words same")
    retriever = Bm25Retriever(twins)
    everything = titles(retriever, "same", 50)
    assert everything == ["40", *(str(i) for i in range(50) if i != 40)]
    for top_k in range(1, 50):
        assert titles(retriever, "same", top_k) == everything[:top_k]


def test_a_batch_gives_what_single_queries_give() -> None:
    retriever = Bm25Retriever(CORPUS)
    queries = ["Ada Roe", "", "north novel", "Ada Roe"]
    assert retriever.search(queries, 2) == [retriever.search([query], 2)[0] for query in queries]
    assert retriever.search([], 2) == []


@pytest.mark.parametrize("query", ["", " \n", "?!…", "unheard", "\x00", "\ud800", "🇫🇷"])
def test_a_query_that_matches_nothing_finds_nothing(query: str) -> None:
    assert Bm25Retriever(CORPUS).search([query], 3) == [[]]


def test_a_corpus_without_a_word_finds_nothing() -> None:
    assert Bm25Retriever([Passage("…", "!")]).search(["word"], 3) == [[]]


def test_more_hits_than_passages_can_be_asked_for() -> None:
    assert len(Bm25Retriever(CORPUS).search(["the town by Ada Roe in a film"], 1_000)[0]) == 4


def test_out_of_range_options_are_errors() -> None:
    with pytest.raises(ConfigError, match="top_k: expected at least 1, got 0"):
        Bm25Retriever(CORPUS).search(["Ada"], 0)
    with pytest.raises(DataError, match="the corpus has no passages"):
        Bm25Retriever([])


def test_retrievers_are_made_by_name() -> None:
    assert RETRIEVERS.get("bm25")(CORPUS).search(["Marsh"], 1)[0][0].passage is CORPUS[3]
    with pytest.raises(UnknownNameError, match=r"unknown retriever 'bm26'; known: .*bm25.* Did you mean 'bm25'"):
        RETRIEVERS.get("bm26")


def test_building_and_searching_write_nothing(caplog: pytest.LogCaptureFixture) -> None:
    script = (
        "import logging; logging.basicConfig(level=logging.INFO)\n"
        "from agent_envs.data.records import Passage\nfrom agent_envs.retrieval.bm25 import Bm25Retriever\n"
        "retriever = Bm25Retriever([Passage('A', 'b'), Passage('', '')]); retriever.search(['', 'a', 'zzz'], 9)"
    )
    done = subprocess.run([sys.executable, "-W", "error", "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == done.stderr == ""
    with caplog.at_level(logging.DEBUG):
        Bm25Retriever(CORPUS).search(["Ada"], 1)
    assert not caplog.records


def test_threads_share_one_retriever() -> None:
    retriever = Bm25Retriever(CORPUS * 40)
    queries = [" ".join(WORDS[i : i + 3]) for i in range(len(WORDS))] * 4
    expected = [retriever.search([query], 4)[0] for query in queries]
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda query: retriever.search([query], 4)[0], queries))
    assert found == expected


def test_a_real_corpus_is_found_by_its_own_titles(real_samples: Path) -> None:
    corpus = read_corpus(real_samples / "2wikimultihopqa_corpus.jsonl")[:2_000]
    hits = Bm25Retriever(corpus).search([passage.title for passage in corpus], 5)
    found = [passage in [hit.passage for hit in top] for passage, top in zip(corpus, hits, strict=True)]
    assert sum(found) / len(found) > 0.95
