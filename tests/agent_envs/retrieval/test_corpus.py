"""Which passages make up a corpus, and what a broken corpus file says."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from agent_envs.data.hotpotqa import read_hotpotqa
from agent_envs.data.records import Passage, Question
from agent_envs.errors import DataError
from agent_envs.retrieval.corpus import corpus_of, read_corpus


def question(task_id: str, *passages: Passage) -> Question:
    return Question(task_id, "?", ("!",), "bridge", (), passages)


def test_the_corpus_is_the_union_by_title_and_text_in_order() -> None:
    ada, ashes, other_edition = Passage("Ada", "A writer."), Passage("Ashes", "A novel."), Passage("Ashes", "A film.")
    questions = [question("1", ashes, ada), question("2", Passage("Ada", "A writer."), other_edition)]
    assert corpus_of(questions) == (ashes, ada, other_edition)
    assert corpus_of([]) == ()


def test_the_corpus_of_real_questions_is_every_paragraph_once(real_samples: Path) -> None:
    questions = read_hotpotqa(real_samples / "hotpotqa_dev_distractor.jsonl")
    pairs = {(passage.title, passage.text) for question in questions for passage in question.passages}
    corpus = corpus_of([*questions, *questions])
    assert len(corpus) == len(pairs)
    assert corpus[:10] == questions[0].passages


def test_a_corpus_file_is_read_in_order_and_each_passage_once(tmp_path: Path) -> None:
    rows = [{"title": "B", "text": "é"}, {"title": "A", "text": ""}, {"title": "B", "text": "é", "id": 3}]
    path = tmp_path / "corpus.jsonl"
    path.write_text("\n".join(json.dumps(row) for row in rows), encoding="utf-8")
    assert read_corpus(path) == (Passage("B", "é"), Passage("A", ""))


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ("", "the file is empty"),
        ("[]", "the corpus is empty"),
        ('{"title": "A", "text": "x"}\n{"title": "A"}', "line 2: the field 'text' is missing; found title"),
        ('{"title": "A", "text": 1}', "line 1: the field 'text': expected a string, found the number 1"),
        ('{"title": "", "text": "x"}', "line 1: the field 'title': expected a string that is not blank"),
    ],
)
def test_a_broken_corpus_file_is_named_with_row_and_field(tmp_path: Path, content: str, complaint: str) -> None:
    path = tmp_path / "corpus.jsonl"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(DataError, match=rf"corpus\.jsonl.*{complaint}"):
        read_corpus(path)


def test_a_real_corpus(real_samples: Path) -> None:
    corpus = read_corpus(real_samples / "2wikimultihopqa_corpus.jsonl")
    assert corpus[0].title == "Teutberga"
    assert len(corpus) == len(set(corpus)) > 6_000
