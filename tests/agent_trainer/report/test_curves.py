from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from agent_envs.errors import MissingExtraError
from agent_trainer.report import HeldOut, plot_curves
from agent_trainer.report.curves import running_mean
from agent_trainer.statistics import wilson

BEFORE = HeldOut("before training", 0, wilson(12, 40), 40)
AFTER = HeldOut("after training", 30, wilson(36, 40), 40)


def history(updates: int) -> list[dict[str, float]]:
    keys = ("reward", "em", "turns", "tool_calls", "malformed_share", "truncated_share", "entropy")
    logs = [{"step": step + 1, **dict.fromkeys(keys, step / updates)} for step in range(updates)]
    return [*logs, {"step": updates, "train_runtime": 1.0}]


def test_the_running_mean_is_centred_and_its_window_is_cut_at_the_ends() -> None:
    values = np.array([0.0, 3.0, 6.0, 0.0])
    assert running_mean(values, 1).tolist() == values.tolist()
    assert running_mean(values, 3).tolist() == [1.5, 3.0, 3.0, 3.0]
    assert running_mean(np.zeros(0), 3).tolist() == []


@pytest.mark.parametrize("updates", [0, 1, 30])
def test_a_picture_is_drawn_for_any_length_of_run(tmp_path: Path, updates: int) -> None:
    path = tmp_path / "new" / "curve.png"
    plot_curves(history(updates), [BEFORE, AFTER] if updates else [BEFORE], path)
    assert path.read_bytes().startswith(b"\x89PNG")


def test_numbers_that_were_not_logged_are_left_out(tmp_path: Path) -> None:
    plot_curves([{"step": 1, "reward": -0.5}, {"loss": 1.0}], [], tmp_path / "curve.png")
    assert (tmp_path / "curve.png").stat().st_size > 10_000


def test_drawing_leaves_the_global_state_of_pyplot_alone(tmp_path: Path) -> None:
    import matplotlib.pyplot as pyplot

    plot_curves(history(3), [BEFORE], tmp_path / "curve.png")
    assert pyplot.get_fignums() == []


def test_without_matplotlib_the_error_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(MissingExtraError, match=r"agent-r1\[train\]"):
        plot_curves(history(3), [BEFORE], tmp_path / "curve.png")
