"""Passages come back from disk to the letter, each once, however they are cut into pieces."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_envs.data.records import Passage
from agent_envs.errors import DataError
from agent_envs.retrieval.building import BuildSettings, CorpusSource, build_index
from agent_envs.retrieval.passage_store import PassageStore, key_of, passages_sha256, without_repetitions

TEXT = st.text(st.characters(codec="utf-8"), max_size=12)


def stored(passages: list[Passage], folder: Path, chunk: int) -> PassageStore:
    source = CorpusSource("passages", lambda: passages)
    build_index(source, folder / "index", BuildSettings("bm25", chunk_passages=chunk))
    return PassageStore(folder / "index")


@settings(max_examples=20)
@given(st.lists(st.builds(Passage, TEXT, TEXT), min_size=1, max_size=12), st.integers(1, 5))
def test_each_passage_comes_back_once_and_to_the_letter(passages: list[Passage], chunk: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        store = stored(passages, Path(folder), chunk)
        assert list(store) == list(dict.fromkeys(passages))
        assert passages_sha256(store) == passages_sha256(list(dict.fromkeys(passages)))


def test_a_title_and_a_text_cut_elsewhere_are_another_passage(tmp_path: Path) -> None:
    passages = [Passage("ab", "c"), Passage("a", "bc"), Passage("", "abc"), Passage("abc", "")]
    assert list(stored(passages, tmp_path, 3)) == passages
    assert len({key_of(p.title.encode(), p.text.encode()) for p in passages}) == 4
    assert len({passages_sha256([p]) for p in passages}) == 4


def test_passages_whose_keys_collide_are_both_kept(tmp_path: Path) -> None:
    texts = tmp_path / "texts"
    texts.write_bytes(b"onetwoonesix")
    spans = np.array([[0, 0, 3], [3, 3, 6], [6, 6, 9], [9, 9, 12]])
    keys = np.array([7, 7, 7, 8], np.uint64)  # the first three collide, and the first and third are really equal
    assert without_repetitions(spans, keys, texts).tolist() == spans[[0, 1, 3]].tolist()


def test_a_store_is_a_sequence(tmp_path: Path) -> None:
    passages = [Passage(str(number), "x") for number in range(5)]
    store = stored(passages, tmp_path, 2)
    assert len(store) == 5
    assert store[-1] == passages[-1]
    assert store[1:4] == passages[1:4]
    assert passages[3] in store
    with pytest.raises(IndexError):
        store[5]


def test_offsets_that_reach_beyond_the_texts_are_refused(tmp_path: Path) -> None:
    stored([Passage("A", "b")], tmp_path, 1)
    (tmp_path / "index" / "passages.bin").write_bytes(b"")
    with pytest.raises(DataError, match=r"the offsets in spans.npy do not belong to passages.bin"):
        PassageStore(tmp_path / "index")
