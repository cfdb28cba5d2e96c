"""Dense retrieval against all inner products written out; blank queries, ties, and numbers that are none."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from agent_envs.data.records import Passage
from agent_envs.errors import ConfigError, DataError, ToolFailureError
from agent_envs.retrieval.dense import DenseRetriever, in_memory
from agent_envs.retrieval.vector_index import FlatVectors
from tests.agent_envs.retrieval.word_encoder import WordEncoder, made_up_passages

CORPUS = made_up_passages(60)
QUERIES = [f"{passage.title} {passage.text}" for passage in CORPUS[::3]]


def test_hits_are_those_of_all_inner_products() -> None:
    encoder = WordEncoder()
    vectors = encoder.encode_passages(CORPUS).astype(np.float64)
    found = in_memory(CORPUS, encoder).search(QUERIES, 5)
    for query, hits in zip(QUERIES, found, strict=True):
        products = vectors @ encoder.vector(query).astype(np.float64)
        best = np.argsort(-products)[:5]
        assert [hit.passage for hit in hits] == [CORPUS[i] for i in best]
        assert [hit.score for hit in hits] == pytest.approx(products[best], abs=1e-6)


def test_the_queries_of_a_search_are_encoded_as_one_batch_without_the_blank_ones() -> None:
    encoder = WordEncoder()
    found = in_memory(CORPUS, encoder).search(["", "river", " \n", "mill"], 2)
    assert encoder.batches == [["river", "mill"]]
    assert [len(hits) for hits in found] == [0, 2, 0, 2]
    assert in_memory(CORPUS, encoder).search(["", "  "], 2) == [[], []]
    assert in_memory(CORPUS, encoder).search([], 2) == []


def test_more_hits_than_passages_are_all_passages() -> None:
    (hits,) = in_memory(CORPUS[:3], WordEncoder()).search(["river"], 50)
    assert {hit.passage for hit in hits} == set(CORPUS[:3])
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)


def test_of_equal_passages_the_first_in_the_corpus_comes_first() -> None:
    twins = [Passage("Twin", f"same text{' ' * number}") for number in range(40)]
    (hits,) = in_memory(twins, WordEncoder()).search(["same"], 40)
    assert [hit.passage for hit in hits] == twins


def test_unicode_goes_through_unharmed() -> None:
    corpus = [Passage("木", "森林 🌲"), Passage("Élan", "ville au nord")]
    (hits,) = in_memory(corpus, WordEncoder()).search(["élan ville"], 1)
    assert hits[0].passage == corpus[1]


def test_a_passage_without_a_finite_vector_is_refused_by_name() -> None:
    with pytest.raises(DataError, match="not finite for 'Bad title'"):
        in_memory([*CORPUS, Passage("Bad title", "poison")], WordEncoder(broken_word="poison"))


def test_a_query_without_a_finite_vector_is_a_failure_of_the_infrastructure() -> None:
    retriever = in_memory(CORPUS, WordEncoder(broken_word="poison"))
    with pytest.raises(ToolFailureError, match="not finite for 'poison'"):
        retriever.search(["river", "poison"], 2)


def test_an_empty_corpus_and_a_wrong_top_k_are_refused() -> None:
    with pytest.raises(DataError, match="no passages"):
        in_memory([], WordEncoder())
    with pytest.raises(ConfigError, match="top_k: expected at least 1, got 0"):
        in_memory(CORPUS, WordEncoder()).search(["river"], 0)


def test_threads_share_one_retriever() -> None:
    retriever = in_memory(CORPUS, WordEncoder())
    expected = [retriever.search([query], 4)[0] for query in QUERIES]
    with ThreadPoolExecutor(16) as pool:
        found = list(pool.map(lambda query: retriever.search([query], 4)[0], QUERIES * 10))
    assert found == expected * 10


def test_blocks_of_vectors_give_what_one_block_gives() -> None:
    encoder = WordEncoder()
    vectors = encoder.encode_passages(CORPUS)
    whole = DenseRetriever(CORPUS, encoder, FlatVectors(vectors)).search(QUERIES, 7)
    for block_rows in (1, 4, 7, 59, 60):
        blocks = DenseRetriever(CORPUS, encoder, FlatVectors(vectors, block_rows)).search(QUERIES, 7)
        assert [[hit.passage for hit in hits] for hits in blocks] == [[hit.passage for hit in hits] for hits in whole]
