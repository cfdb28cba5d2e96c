"""Files of MATH, AIME and DAPO, whatever their fields are called."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agent_envs.data.math_problems import last_boxed, read_math
from agent_envs.errors import DataError


def write(path: Path, *rows: dict[str, Any]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def test_fields_go_by_the_names_of_the_known_sets(tmp_path: Path) -> None:
    math500 = {"problem": "P", "solution": r"so \boxed{9}", "answer": "3", "subject": "Algebra", "unique_id": "a/1"}
    math = {"problem": "P ", "solution": r"\boxed{1} then \boxed{\frac{1}{2}}", "type": "Number Theory"}
    aime = {"ID": "2024-I-1", "Problem": "ignored", "question": "P", "answer": 204}
    dapo = {"prompt": "P", "answer": " 34 ", "id": 7}
    problems = read_math(write(tmp_path / "set.jsonl", math500, math, aime, dapo))
    assert [problem.task_id for problem in problems] == ["a/1", "set/1", "2024-I-1", "7"]
    assert [problem.answer for problem in problems] == ["3", r"\frac{1}{2}", "204", "34"]
    assert [problem.kind for problem in problems] == ["Algebra", "Number Theory", "", ""]
    assert {problem.question for problem in problems} == {"P"}


@pytest.mark.parametrize(
    ("row", "complaint"),
    [
        ({"answer": "1"}, "the field 'problem' is missing"),
        ({"problem": "P"}, r"the field 'answer' is missing, and there is no 'solution' with a \\boxed answer"),
        ({"problem": "P", "solution": "It is 3."}, r"'solution': expected a text with the answer in \\boxed"),
        ({"problem": "P", "answer": None}, "'answer': expected a string that is not blank, found null"),
        ({"problem": ["P"], "answer": "1"}, "'problem': expected a string"),
    ],
)
def test_a_malformed_row_is_named_with_its_field(tmp_path: Path, row: dict[str, Any], complaint: str) -> None:
    with pytest.raises(DataError, match=rf"set\.jsonl, line 1.*{complaint}"):
        read_math(write(tmp_path / "set.jsonl", row))


def test_an_id_that_comes_twice_is_an_error(tmp_path: Path) -> None:
    row = {"id": "x", "problem": "P", "answer": "1"}
    with pytest.raises(DataError, match="the id 'x' is used twice"):
        read_math(write(tmp_path / "set.jsonl", row, row))


@pytest.mark.parametrize(
    ("text", "inside"),
    [
        (r"a \boxed{1} b \boxed{ \frac{1}{2} } c", r"\frac{1}{2}"),
        (r"\boxed {3}", "3"),
        (r"\boxed{}", ""),
        (r"\boxed{1", None),
        ("no box", None),
        (r"\boxed 3", None),
    ],
)
def test_the_last_box_is_read_to_its_own_end(text: str, inside: str | None) -> None:
    assert last_boxed(text) == inside


def test_the_answers_of_gsm8k_are_read_without_their_rationale(tmp_path: Path) -> None:
    path = tmp_path / "gsm8k.jsonl"
    path.write_text(json.dumps({"question": "Half of 48?", "answer": "48/2 = <<48/2=24>>24 clips.\n#### 1,024"}) + "\n")
    assert read_math(path)[0].answer == "1,024"
