"""BM25 on disk, built in pieces, against the same library in memory: equal to the last bit."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_envs.data.corpus import read_corpus
from agent_envs.data.records import Passage
from agent_envs.retrieval.bm25 import Bm25Retriever
from agent_envs.retrieval.build_bm25 import COLUMNS, SCORES, STARTS
from agent_envs.retrieval.building import BuildSettings, CorpusSource, build_index
from agent_envs.retrieval.index import load_index
from tests.agent_envs.retrieval.word_encoder import made_up_passages

WORDS = st.lists(st.sampled_from(["mill", "Élan", "sea", "12", "...", "木"]), max_size=8).map(" ".join)


def on_disk(passages: list[Passage], folder: Path, chunk: int = 3) -> Path:
    source = CorpusSource("passages", lambda: passages)
    build_index(source, folder / "index", BuildSettings("bm25", chunk_passages=chunk))
    return folder / "index"


@settings(max_examples=20)
@given(st.lists(st.builds(Passage, WORDS, WORDS), min_size=1, max_size=10, unique=True), WORDS)
def test_hits_and_scores_equal_those_in_memory(passages: list[Passage], query: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        retriever = load_index(on_disk(passages, Path(folder)))
        for top_k in (1, 3, 50):
            assert retriever.search([query], top_k) == Bm25Retriever(passages).search([query], top_k)


def test_the_arrays_are_those_of_the_library(tmp_path: Path) -> None:
    passages = list(made_up_passages(200))
    folder = on_disk(passages, tmp_path, chunk=17)
    library = Bm25Retriever(passages)._index.scores
    for file, name in ((SCORES, "data"), (COLUMNS, "indices"), (STARTS, "indptr")):
        ours = np.load(folder / file)
        assert ours.dtype == library[name].dtype
        np.testing.assert_array_equal(ours, library[name])


def test_real_passages_rank_the_same(real_samples: Path, tmp_path: Path) -> None:
    passages = list(read_corpus(real_samples / "2wikimultihopqa_corpus.jsonl")[:1500])
    queries = [passage.text[:80] for passage in passages[::50]]
    found = load_index(on_disk(passages, tmp_path, chunk=400)).search(queries, 20)
    assert found == Bm25Retriever(passages).search(queries, 20)


def test_a_corpus_without_a_word_is_searched_in_vain(tmp_path: Path) -> None:
    assert load_index(on_disk([Passage("...", "!")], tmp_path)).search(["mill", ""], 3) == [[], []]


def test_its_own_parameters_count(tmp_path: Path) -> None:
    passages = [Passage("A", "town town"), Passage("B", "sea")]
    source = CorpusSource("passages", lambda: passages)
    build_index(source, tmp_path / "index", BuildSettings("bm25", {"k1": 0.5, "b": 0.0}))
    # ln 2 * 2 / (2 + 0.5), as in the test in memory
    (hit,) = load_index(tmp_path / "index").search(["town"], 3)[0]
    assert hit.score == np.float32(np.log(2) * 2 / 2.5)
    assert Bm25Retriever(passages, 0.5, 0.0).search(["town"], 3)[0] == [hit]
