"""The official file of GSM8K, from a path and from the Hub."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from agent_envs.data.gsm8k import read_gsm8k, read_gsm8k_hub, worked_steps
from agent_envs.data.math_problems import MathProblem
from agent_envs.errors import DataError, MissingExtraError
from agent_envs.numbers import find_number
from agent_envs.tools.calculator import evaluate

ROW = {
    "question": "Ada has 48 clips and sells half. How many are left? ",
    "answer": "She sells 48/2 = <<48/2=24>>24 clips.\nThere are 48-24 = <<48-24=24>>24 left.\n#### 24",
}


def write(path: Path, *rows: dict[str, object]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def test_a_row_gives_the_question_the_rationale_and_the_gold_number(tmp_path: Path) -> None:
    (problem,) = read_gsm8k(write(tmp_path / "small.jsonl", ROW))
    assert problem == MathProblem(
        "small/0",
        "Ada has 48 clips and sells half. How many are left?",
        "24",
        "She sells 48/2 = <<48/2=24>>24 clips.\nThere are 48-24 = <<48-24=24>>24 left.",
    )
    assert problem.answers == ("24",)
    assert worked_steps(problem.solution) == (("48/2", "24"), ("48-24", "24"))


@pytest.mark.parametrize(
    ("row", "complaint"),
    [
        ({"question": "Q?"}, "the field 'answer' is missing"),
        ({"question": " ", "answer": "#### 1"}, "the field 'question'"),
        ({"question": "Q?", "answer": "It is 24."}, "a rationale that ends in a line '#### number'"),
        ({"question": "Q?", "answer": "It is 24.\n#### many"}, "'#### number', found the string"),
        ({"question": "Q?", "answer": 24}, "the field 'answer': expected a string"),
    ],
)
def test_a_malformed_row_is_named_with_its_field(tmp_path: Path, row: dict[str, object], complaint: str) -> None:
    with pytest.raises(DataError, match=rf"set\.jsonl, line 2.*{complaint}"):
        read_gsm8k(write(tmp_path / "set.jsonl", ROW, row))


def test_an_empty_set_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "set.json").write_text("[]")
    with pytest.raises(DataError, match="expected at least one problem"):
        read_gsm8k(tmp_path / "set.json")


def test_the_hub_needs_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(MissingExtraError, match=r"'openai/gsm8k' from the Hub needs datasets"):
        read_gsm8k_hub()


def test_a_data_set_of_the_hub_gives_the_same_problems(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    datasets = pytest.importorskip("datasets", reason="needs the extra `train`")
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    datasets.disable_progress_bars()
    folder = tmp_path / "copy"
    folder.mkdir()
    write(folder / "rows.jsonl", ROW, ROW)
    (folder / "README.md").write_text(
        "---\nconfigs:\n- config_name: main\n  data_files:\n  - split: test\n    path: rows.jsonl\n---\n"
    )
    problems = read_gsm8k_hub(str(folder))
    assert [problem.task_id for problem in problems] == ["test/0", "test/1"]
    assert problems[0].answer == "24"
    with pytest.raises(DataError, match=r"copy \(socratic, test\): expected the path of a file, or a data set"):
        read_gsm8k_hub(str(folder), config="socratic")


@pytest.mark.parametrize("name", ["gsm8k_train", "gsm8k_test"])
def test_real_samples_and_their_annotations(real_samples: Path, name: str) -> None:
    problems = read_gsm8k(real_samples / f"{name}.jsonl")
    assert len(problems) == 400
    steps = [step for problem in problems for step in worked_steps(problem.solution)]
    assert len(steps) > 1200
    for expression, value in steps:
        written = find_number(value)
        assert written is not None
        assert float(evaluate(expression)) == pytest.approx(float(written), abs=0.02), expression
