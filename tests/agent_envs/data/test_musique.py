"""The official files of MuSiQue, repeated titles, unanswerable rows, and that a broken row is named with its field."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agent_envs.data.musique import read_musique, read_musique_hub
from agent_envs.data.records import Passage, Question, SubQuestion
from agent_envs.errors import DataError
from tests.agent_envs.data.hub_copies import lay_out

Json = dict[str, Any]

OFFICIAL: Json = {
    "id": "2hop__11_12",
    "paragraphs": [
        {"idx": 0, "title": "Ashes", "paragraph_text": "Ashes is a lake.", "is_supporting": False},
        {"idx": 1, "title": "Ada Roe", "paragraph_text": "She is from Élan.", "is_supporting": True},
        {"idx": 2, "title": "Ashes", "paragraph_text": "Ashes is by Ada Roe.", "is_supporting": True},
    ],
    "question": "Which country is the author of Ashes from? ",
    "question_decomposition": [
        {"id": 11, "question": "Ashes >> author", "answer": "Ada Roe", "paragraph_support_idx": 2},
        {"id": 12, "question": "Where is #1 from?", "answer": "Élan", "paragraph_support_idx": 1},
    ],
    "answer": "Élan",
    "answer_aliases": ["Elan", "Élan", ""],
    "answerable": True,
}
LAKE, ADA, ASHES = (
    Passage("Ashes", "Ashes is a lake."),
    Passage("Ada Roe", "She is from Élan."),
    Passage("Ashes", "Ashes is by Ada Roe."),
)
EXPECTED = Question(
    task_id="2hop__11_12",
    question="Which country is the author of Ashes from?",
    answers=("Élan", "Elan"),
    kind="2hop",
    supporting_facts=(("Ashes", 0), ("Ada Roe", 0)),
    passages=(LAKE, ADA, ASHES),
    gold_passages=(ASHES, ADA),
    decomposition=(SubQuestion("Ashes >> author", "Ada Roe", ASHES), SubQuestion("Where is #1 from?", "Élan", ADA)),
)


def write_lines(path: Path, *rows: Json) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def other_row(**changes: Any) -> Json:
    return {**copy.deepcopy(OFFICIAL), "id": "3hop1__1_2_3", **changes}


def as_columns(row: Json) -> Json:
    nested = ("paragraphs", "question_decomposition")
    return row | {name: {key: [item[key] for item in row[name]] for key in row[name][0]} for name in nested}


@pytest.mark.parametrize("layout", [lambda row: row, as_columns], ids=["official", "columns"])
def test_either_layout_gives_the_same_questions(tmp_path: Path, layout: Callable[[Json], Json]) -> None:
    assert read_musique(write_lines(tmp_path / "set.jsonl", layout(OFFICIAL))) == (EXPECTED,)


def test_gold_is_known_by_title_and_text_where_titles_repeat() -> None:
    assert EXPECTED.gold_titles == ("Ashes", "Ada Roe")
    assert set(EXPECTED.gold_keys) == {ASHES.key, ADA.key}
    assert LAKE.key != ASHES.key
    assert EXPECTED.gold_queries == ("Ashes Ashes is by Ada Roe.", "Ada Roe She is from Élan.")


def test_a_supporting_paragraph_that_no_hop_names_is_gold_too(tmp_path: Path) -> None:
    steps = [{**step, "paragraph_support_idx": None} for step in OFFICIAL["question_decomposition"]]
    (question,) = read_musique(write_lines(tmp_path / "set.jsonl", {**OFFICIAL, "question_decomposition": steps}))
    assert question.gold_passages == (ADA, ASHES)
    assert [hop.passage for hop in question.decomposition] == [None, None]


@pytest.mark.parametrize(
    ("task_id", "kind"), [("4hop3__1_2_3_4", "4hop3"), ("3hop2__9", "3hop2"), ("mine", "2hop"), ("xhop__1", "2hop")]
)
def test_the_kind_comes_from_the_id_or_else_from_the_hops(tmp_path: Path, task_id: str, kind: str) -> None:
    (question,) = read_musique(write_lines(tmp_path / "set.jsonl", {**OFFICIAL, "id": task_id}))
    assert (question.task_id, question.kind) == (task_id, kind)


def test_unanswerable_rows_are_left_out_or_refused(tmp_path: Path) -> None:
    """In MuSiQue-Full both rows of a question have one id."""
    path = write_lines(tmp_path / "set.jsonl", {**OFFICIAL, "answerable": False}, OFFICIAL)
    assert read_musique(path) == (EXPECTED,)
    with pytest.raises(DataError, match=r'line 1: the question has no answer in its paragraphs; unanswerable="skip"'):
        read_musique(path, unanswerable="error")
    with pytest.raises(DataError, match=r"set\.jsonl: the set is empty"):
        read_musique(write_lines(tmp_path / "set.jsonl", {**OFFICIAL, "answerable": False}))


def paragraph(**changes: Any) -> Json:
    return {"paragraphs": [*OFFICIAL["paragraphs"][:2], OFFICIAL["paragraphs"][2] | changes]}


def step(**changes: Any) -> Json:
    return {"question_decomposition": [OFFICIAL["question_decomposition"][0] | changes]}


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"id": 5}, "'id': expected a string that is not blank, found the number 5"),
        ({"id": "2hop__11_12"}, "the id '2hop__11_12' was used before"),
        ({"answerable": "yes"}, "'answerable': expected true or false, found the string 'yes'"),
        ({"answer": ""}, "'answer': expected a string that is not blank"),
        ({"answer_aliases": None}, "'answer_aliases': expected a list, found null"),
        ({"answer_aliases": [3]}, r"'answer_aliases\[0\]': expected a string, found the number 3"),
        ({"paragraphs": "text"}, "'paragraphs': expected a list, found the string 'text'"),
        ({"paragraphs": ["text"]}, r"'paragraphs\[0\]': expected an object, found the string 'text'"),
        ({"paragraphs": {"idx": [0], "title": []}}, "'paragraphs.title': expected a list as long as that of idx"),
        (paragraph(idx=1), r"'paragraphs\[2\]': the field 'idx': expected a number that no paragraph before it has"),
        (paragraph(idx=-1), r"'paragraphs\[2\]': the field 'idx': expected an integer >= 0"),
        (paragraph(title=None), r"'paragraphs\[2\]': the field 'title': expected a string"),
        (paragraph(is_supporting=1), r"'paragraphs\[2\]': the field 'is_supporting': expected true or false"),
        (step(paragraph_support_idx=7), "'paragraph_support_idx': expected the idx of a paragraph, or null, found"),
        (step(paragraph_support_idx="2"), "'paragraph_support_idx': expected an integer >= 0, found the string"),
        (step(question=""), r"'question_decomposition\[0\]': the field 'question': expected a string"),
    ],
)
def test_a_malformed_row_is_named_with_its_field(tmp_path: Path, changes: Json, complaint: str) -> None:
    path = write_lines(tmp_path / "set.jsonl", OFFICIAL, other_row(**changes))
    with pytest.raises(DataError, match=rf"set\.jsonl, line 2.*{complaint}"):
        read_musique(path)


@pytest.mark.parametrize(
    "field", ["id", "paragraphs", "question", "question_decomposition", "answer", "answer_aliases"]
)
def test_a_missing_field_is_named(tmp_path: Path, field: str) -> None:
    row = {name: value for name, value in OFFICIAL.items() if name != field}
    with pytest.raises(DataError, match=rf"line 1: the field '{field}' is missing"):
        read_musique(write_lines(tmp_path / "set.jsonl", row))


def test_a_data_set_of_the_hub_gives_the_same_questions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert read_musique_hub(str(lay_out(tmp_path, monkeypatch, [OFFICIAL]))) == (EXPECTED,)


def test_real_samples(real_samples: Path) -> None:
    questions = read_musique(real_samples / "musique_ans_dev.jsonl")
    assert len(questions) == 100
    assert {q.kind for q in questions} == {"2hop", "3hop1", "3hop2", "4hop1", "4hop2", "4hop3"}
    for question in questions:
        assert len(question.passages) == 20
        assert len(question.gold_passages) == len(question.decomposition) == int(question.kind[0])
        assert set(question.gold_passages) <= set(question.passages)
    assert sum(len(question.gold_titles) < len(question.gold_passages) for question in questions) == 5
    assert next(q.answers for q in questions if q.task_id == "2hop__335418_279684") == (
        *("Pittsburgh Pirates", "Orioles", "Pirates", "Baltimore Orioles", "New York Mets", "Mets"),
    )
