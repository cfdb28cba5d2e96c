"""The official files in every layout, and that a broken row is named with its field."""

from __future__ import annotations

import copy
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agent_envs.data.corpus import read_corpus
from agent_envs.data.hotpotqa import read_hotpotqa, read_hub
from agent_envs.data.records import Passage, Question
from agent_envs.errors import DataError, MissingExtraError
from tests.agent_envs.data.hub_copies import lay_out

Json = dict[str, Any]

OFFICIAL: Json = {
    "_id": "q1",
    "question": "In which country was the author of Ashes born? ",
    "answer": "Élan",
    "type": "bridge",
    "level": "hard",
    "supporting_facts": [["Ashes", 0], ["Ada Roe", 1], ["Ashes", 1]],
    "context": [
        ["Ada Roe", ["Ada Roe is a writer.", " She was born in Élan."]],
        ["Ashes", ["Ashes is a novel.", " It is by Ada Roe, ", '"and others".']],
        ["Blank", []],
    ],
}
EXPECTED = Question(
    task_id="q1",
    question="In which country was the author of Ashes born?",
    answers=("Élan",),
    kind="bridge",
    supporting_facts=(("Ashes", 0), ("Ada Roe", 1), ("Ashes", 1)),
    passages=(
        Passage("Ada Roe", "Ada Roe is a writer. She was born in Élan."),
        Passage("Ashes", 'Ashes is a novel. It is by Ada Roe, "and others".'),
        Passage("Blank", ""),
    ),
)


def second_row() -> Json:
    return {**copy.deepcopy(OFFICIAL), "_id": "q2", "type": "comparison"}


def in_hub_layout(row: Json) -> Json:
    return {
        "id": row["_id"],
        **{field: row[field] for field in ("question", "answer", "type", "level")},
        "supporting_facts": {
            "title": [title for title, _ in row["supporting_facts"]],
            "sent_id": [index for _, index in row["supporting_facts"]],
        },
        "context": {
            "title": [title for title, _ in row["context"]],
            "sentences": [sentences for _, sentences in row["context"]],
        },
    }


def write_lines(path: Path, *rows: Json) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def test_an_array_and_lines_give_the_same_questions(tmp_path: Path) -> None:
    array = tmp_path / "array.json"
    array.write_text(json.dumps([OFFICIAL, second_row()]), encoding="utf-8")
    lines = write_lines(tmp_path / "lines.txt", OFFICIAL, second_row())
    questions = read_hotpotqa(array)
    assert questions[0] == EXPECTED
    assert [question.task_id for question in questions] == ["q1", "q2"]
    assert questions[0].gold_titles == ("Ashes", "Ada Roe")
    assert read_hotpotqa(str(lines)) == questions


def test_the_layout_of_the_hub_gives_the_same_questions(tmp_path: Path) -> None:
    assert read_hotpotqa(write_lines(tmp_path / "hub.jsonl", in_hub_layout(OFFICIAL))) == (EXPECTED,)


def test_sentences_without_spaces_of_their_own_are_joined_with_one(tmp_path: Path) -> None:
    row = {**OFFICIAL, "context": [["Ashes", ["Ashes is a novel.", "It is by Ada Roe."]]]}
    (question,) = read_hotpotqa(write_lines(tmp_path / "set.jsonl", row))
    assert question.passages == (Passage("Ashes", "Ashes is a novel. It is by Ada Roe."),)


def test_a_gold_paragraph_may_be_missing_as_in_fullwiki(tmp_path: Path) -> None:
    (question,) = read_hotpotqa(write_lines(tmp_path / "set.jsonl", {**OFFICIAL, "context": [["Other", ["Text."]]]}))
    assert question.gold_titles == ("Ashes", "Ada Roe")


def changed(**fields: Any) -> Callable[[Json], Json]:
    return lambda row: {**row, **fields}


def without(field: str) -> Callable[[Json], Json]:
    return lambda row: {name: value for name, value in row.items() if name != field}


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (without("_id"), "the field '_id' is missing; found question, answer, "),
        (without("question"), "the field 'question' is missing"),
        (without("answer"), "the field 'answer' is missing; a test file without gold answers cannot be scored"),
        (without("type"), "the field 'type' is missing"),
        (without("supporting_facts"), "the field 'supporting_facts' is missing"),
        (without("context"), "the field 'context' is missing"),
        (changed(_id=5), "'_id': expected a string that is not blank, found the number 5"),
        (changed(question=None), "'question': expected a string that is not blank, found null"),
        (changed(answer=" "), "'answer': expected a string that is not blank, found the string ' '"),
        (changed(answer=["Élan"]), "'answer': expected a string that is not blank, found a list"),
        (changed(supporting_facts="Ashes"), "'supporting_facts': expected a list, found the string 'Ashes'"),
        (changed(supporting_facts=[["Ashes"]]), r"'supporting_facts\[0\]': expected a list of 2: title, sent_id"),
        (changed(supporting_facts=[["Ashes", "0"]]), r"'supporting_facts\[0\]\[1\]': expected an integer >= 0"),
        (changed(supporting_facts=[["Ashes", 0], [1, 0]]), r"'supporting_facts\[1\]\[0\]': expected a string"),
        (changed(context=[["A", "Text."]]), r"'context\[0\]\[1\]': expected a list, found the string 'Text.'"),
        (changed(context=[["A", ["Text.", None]]]), r"'context\[0\]\[1\]\[1\]': expected a string, found null"),
        (changed(context={"title": ["A"]}), "field 'context': the field 'sentences' is missing; found title"),
        (changed(context={"title": ["A"], "sentences": []}), r"'context.sentences': expected a list as long as"),
        (changed(_id="q1"), r"the id 'q1' was used before, in .*set\.jsonl, line 1"),
    ],
)
def test_a_malformed_row_is_named_with_its_field(
    tmp_path: Path, change: Callable[[Json], Json], complaint: str
) -> None:
    path = write_lines(tmp_path / "set.jsonl", OFFICIAL, change(second_row()))
    with pytest.raises(DataError, match=rf"set\.jsonl, line 2.*{complaint}"):
        read_hotpotqa(path)


def test_an_empty_set_and_a_missing_file_are_errors(tmp_path: Path) -> None:
    (tmp_path / "set.json").write_text("[]", encoding="utf-8")
    with pytest.raises(DataError, match=r"set\.json: the set is empty; expected at least one question"):
        read_hotpotqa(tmp_path / "set.json")
    with pytest.raises(DataError, match=r"absent\.json: expected a JSON file, but it cannot be read: No such file"):
        read_hotpotqa(tmp_path / "absent.json")
    with pytest.raises(DataError, match="Is a directory"):
        read_hotpotqa(tmp_path)


def test_the_hub_needs_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(MissingExtraError, match=r"needs datasets: pip install \"agent-r1\[train\]\""):
        read_hub()


@pytest.fixture
def hub_copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return lay_out(tmp_path, monkeypatch, [in_hub_layout(OFFICIAL), in_hub_layout(second_row())], "distractor")


def test_a_data_set_of_the_hub_gives_the_same_questions(hub_copy: Path) -> None:
    questions = read_hub(str(hub_copy), config="distractor", split="validation")
    assert questions[0] == EXPECTED
    assert len(questions) == 2


def test_an_unknown_configuration_of_the_hub_is_a_data_error(hub_copy: Path) -> None:
    with pytest.raises(DataError, match=r"copy \(fullwiki, validation\): expected the path of a file, or a data set"):
        read_hub(str(hub_copy), config="fullwiki")


@pytest.mark.parametrize(
    ("name", "count", "all_gold_present"),
    [
        ("hotpotqa_dev_distractor.jsonl", 120, True),
        ("hotpotqa_dev_fullwiki.jsonl", 60, False),
        ("hotpotqa_train.jsonl", 100, True),
    ],
)
def test_real_samples(real_samples: Path, name: str, count: int, all_gold_present: bool) -> None:
    questions = read_hotpotqa(real_samples / name)
    assert len(questions) == count
    assert {question.kind for question in questions} == {"bridge", "comparison"}
    present = [set(q.gold_titles) <= {passage.title for passage in q.passages} for q in questions]
    assert all(present) is all_gold_present


def test_a_real_paragraph_reads_as_in_wikipedia(real_samples: Path) -> None:
    passages = {p for q in read_hotpotqa(real_samples / "hotpotqa_dev_distractor.jsonl") for p in q.passages}
    text = next(passage.text for passage in passages if passage.title == "Sheila Sim")
    assert "was an English film and theatre actress. She was the wife of the actor" in text


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
