"""The official files of 2WikiMultihopQA and the layouts of its copies, aliases, and that a broken row is named."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agent_envs.data.records import Passage, Question
from agent_envs.data.two_wiki import read_two_wiki, read_two_wiki_hub
from agent_envs.errors import DataError
from tests.agent_envs.data.hub_copies import lay_out

Json = dict[str, Any]

OFFICIAL: Json = {
    "_id": "q1",
    "type": "compositional",
    "question": "Which country is the author of Ashes from?",
    "context": [["Ada Roe", ["Ada Roe is a writer.", "She is from Élan."]], ["Ashes", ["It is by Ada Roe."]]],
    "entity_ids": "Q1_Q2",
    "supporting_facts": [["Ashes", 0], ["Ada Roe", 1]],
    "evidences": [["Ashes", "author", "Ada Roe"], ["Ada Roe", "country", "Élan"]],
    "answer": "Élan",
    "evidences_id": [["Q1", "author", "Q2"], ["Q2", "country", "Q3"]],
    "answer_id": "Q3",
}
EXPECTED = Question(
    task_id="q1",
    question="Which country is the author of Ashes from?",
    answers=("Élan",),
    kind="compositional",
    supporting_facts=(("Ashes", 0), ("Ada Roe", 1)),
    passages=(Passage("Ada Roe", "Ada Roe is a writer. She is from Élan."), Passage("Ashes", "It is by Ada Roe.")),
    evidences=(("Ashes", "author", "Ada Roe"), ("Ada Roe", "country", "Élan")),
)
ALIASES = [
    {"Q_id": "Q3", "aliases": ["Elan", "Élan", " "], "demonyms": ["Elanese"]},
    {"Q_id": "Q9", "aliases": [], "demonyms": []},
]


def write_lines(path: Path, *rows: Json) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def columns(pairs: list[list[Any]], *names: str) -> Json:
    return {name: [pair[index] for pair in pairs] for index, name in enumerate(names)}


def as_json_text(row: Json) -> Json:
    return row | {field: json.dumps(row[field]) for field in ("context", "supporting_facts", "evidences")}


def as_columns(row: Json) -> Json:
    return {"id": row["_id"], **{field: row[field] for field in ("type", "question", "answer")}} | {
        "context": columns(row["context"], "title", "sentences"),
        "supporting_facts": columns(row["supporting_facts"], "title", "sent_id"),
        "evidences": columns(row["evidences"], "subject", "relation", "object"),
    }


def as_columns_of_other_names(row: Json) -> Json:
    return as_columns(row) | {
        "context": columns(row["context"], "title", "content"),
        "evidences": columns(row["evidences"], "fact", "relation", "entity"),
    }


LAYOUTS: dict[str, Callable[[Json], Json]] = {
    "official": lambda row: row,
    "nested fields as JSON text": as_json_text,
    "columns": as_columns,
    "columns of other names": as_columns_of_other_names,
    "columns as JSON text": lambda row: as_json_text(as_columns(row)),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_layout_gives_the_same_questions(tmp_path: Path, layout: str) -> None:
    row = LAYOUTS[layout](copy.deepcopy(OFFICIAL))
    assert read_two_wiki(write_lines(tmp_path / "set.jsonl", row)) == (EXPECTED,)
    (tmp_path / "set.json").write_text(json.dumps([row]), encoding="utf-8")
    assert read_two_wiki(tmp_path / "set.json") == (EXPECTED,)


def test_aliases_and_demonyms_of_the_answer_are_accepted_too(tmp_path: Path) -> None:
    aliases = write_lines(tmp_path / "id_aliases.json", *ALIASES)
    dated = {**OFFICIAL, "_id": "q2", "answer": "12 May 1913", "answer_id": None}
    unknown = {**OFFICIAL, "_id": "q3", "answer_id": "Q77"}
    path = write_lines(tmp_path / "set.jsonl", OFFICIAL, dated, unknown)
    answers = [question.answers for question in read_two_wiki(path, aliases)]
    assert answers == [("Élan", "Elan", "Elanese"), ("12 May 1913",), ("Élan",)]
    assert {question.answers for question in read_two_wiki(path)} == {("Élan",), ("12 May 1913",)}


@pytest.mark.parametrize(
    ("row", "complaint"),
    [
        ({"aliases": [], "demonyms": []}, "line 2: the field 'Q_id' is missing"),
        ({"Q_id": "Q1", "aliases": "Elan", "demonyms": []}, "'aliases': expected a list, found the string 'Elan'"),
        ({"Q_id": "Q1", "aliases": [1], "demonyms": []}, r"'aliases\[0\]': expected a string, found the number 1"),
        ({"Q_id": "Q1", "aliases": []}, "the field 'demonyms' is missing"),
    ],
)
def test_a_broken_file_of_aliases_is_named_with_row_and_field(tmp_path: Path, row: Json, complaint: str) -> None:
    aliases = write_lines(tmp_path / "id_aliases.json", ALIASES[0], row)
    with pytest.raises(DataError, match=rf"id_aliases\.json.*{complaint}"):
        read_two_wiki(write_lines(tmp_path / "set.jsonl", OFFICIAL), aliases)


def test_aliases_for_a_set_without_ids_are_an_error(tmp_path: Path) -> None:
    aliases = write_lines(tmp_path / "id_aliases.json", *ALIASES)
    row = {name: value for name, value in OFFICIAL.items() if name != "answer_id"}
    with pytest.raises(DataError, match=r"set\.jsonl, line 1: the field 'answer_id' is missing"):
        read_two_wiki(write_lines(tmp_path / "set.jsonl", row), aliases)


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"evidences": None}, "'evidences': expected a list, found null"),
        ({"evidences": [["Ashes", "author"]]}, r"'evidences\[0\]': expected a list of 3: subject, relation, object"),
        ({"evidences": [["Ashes", "author", 3]]}, r"'evidences\[0\]\[2\]': expected a string, found the number 3"),
        (
            {"evidences": {"subject": ["Ashes"], "relation": [], "object": ["x"]}},
            "'evidences.relation': expected a list",
        ),
        ({"evidences": {"subject": ["Ashes"]}}, "field 'evidences': the field 'relation' is missing"),
        ({"context": "[broken"}, "'context': expected a list, or JSON text of one, found the string '.broken'"),
        ({"supporting_facts": '"text"'}, "'supporting_facts': expected a list, found the string 'text'"),
        ({"context": [["Ashes", "It is by Ada Roe."]]}, r"'context\[0\]\[1\]': expected a list"),
        ({"_id": "q1"}, "the id 'q1' was used before"),
        ({"answer": ""}, "'answer': expected a string that is not blank"),
    ],
)
def test_a_malformed_row_is_named_with_its_field(tmp_path: Path, change: Json, complaint: str) -> None:
    path = write_lines(tmp_path / "set.jsonl", OFFICIAL, {**OFFICIAL, "_id": "q2", **change})
    with pytest.raises(DataError, match=rf"set\.jsonl, line 2.*{complaint}"):
        read_two_wiki(path)


def test_a_row_without_evidences_is_an_error(tmp_path: Path) -> None:
    row = {name: value for name, value in OFFICIAL.items() if name != "evidences"}
    with pytest.raises(DataError, match="line 1: the field 'evidences' is missing"):
        read_two_wiki(write_lines(tmp_path / "set.jsonl", row))


def test_a_data_set_of_the_hub_gives_the_same_questions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = lay_out(tmp_path, monkeypatch, [as_json_text(OFFICIAL)])
    aliases = write_lines(tmp_path / "id_aliases.json", *ALIASES)
    (question,) = read_two_wiki_hub(str(folder), "validation", aliases)
    assert question.answers == ("Élan", "Elan", "Elanese")
    assert read_two_wiki_hub(str(folder)) == (EXPECTED,)


def test_real_samples(real_samples: Path) -> None:
    questions = read_two_wiki(real_samples / "2wikimultihopqa_dev.jsonl")
    assert len(questions) == 200
    assert {q.kind for q in questions} == {"compositional", "inference", "comparison", "bridge_comparison"}
    for question in questions:
        assert len(question.passages) == 10
        assert len(question.evidences) >= (4 if question.kind == "bridge_comparison" else 2)
        assert set(question.gold_titles) <= {passage.title for passage in question.passages}
    andy = next(p for q in questions for p in q.passages if p.title == "Malibu Express")
    assert andy.text.startswith("Malibu Express is a 1985 American action/ adventure film starring Darby Hinton")
    assert "Art Metrano. It was directed, written" in andy.text
