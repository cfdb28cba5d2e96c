from __future__ import annotations

import json
import math
from pathlib import Path

from agent_trainer.evaluate import Evaluation
from agent_trainer.report import RunSummary, write_summary
from agent_trainer.rollout import RolloutStats
from agent_trainer.statistics import Estimate, wilson


def evaluation(right: int, failed: int = 0) -> Evaluation:
    zero = Estimate(0.0, 0.0, 0.0)
    return Evaluation("Test-v0", {}, 100, failed, {"em": wilson(right, 100)}, zero, zero, RolloutStats())


def summary(before: int, after: int, failed: int = 0) -> RunSummary:
    seconds = {"evaluation before": 1.5, "training": 20.0}
    settings = {"learning_rate": 1e-3, "odd": "a|b`c\nd", "nan": math.nan}
    return RunSummary("A run", evaluation(before, failed), evaluation(after), 7, 3, seconds, settings)


def test_the_numbers_are_written_as_strict_json(tmp_path: Path) -> None:
    write_summary(summary(30, 90), tmp_path / "new")
    data = json.loads((tmp_path / "new" / "summary.json").read_text())
    assert data["em_before"]["mean"] == 0.3 and data["em_after"]["mean"] == 0.9
    assert data["em_before"]["high"] < data["em_after"]["low"] and data["intervals_apart"]
    assert (data["questions"], data["updates"], data["seed"]) == (100, 7, 3)
    assert data["seconds"] == {"evaluation before": 1.5, "training": 20.0, "total": 21.5}
    assert data["settings"]["nan"] is None
    assert {"python", "torch", "trl"} <= data["versions"].keys()


def test_the_table_says_what_changed_and_nothing_breaks_it(tmp_path: Path) -> None:
    write_summary(summary(30, 90, failed=2), tmp_path)
    text = (tmp_path / "summary.md").read_text()
    assert "| exact match | 0.300 [0.219, 0.396] | 0.900 [0.826, 0.945] |" in text
    assert "| total | 21.5 |" in text
    assert "intervals of the exact match lie apart" in text and "2 episodes failed" in text
    assert "| odd | `a\\|b'c d` |" in text


def test_a_rise_within_the_intervals_is_not_called_one(tmp_path: Path) -> None:
    write_summary(summary(50, 55), tmp_path)
    assert "did not rise beyond" in (tmp_path / "summary.md").read_text()
    assert not summary(90, 30).intervals_apart
