"""Two processes and one give the same update: denominators, groups across processes, averages in the log."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.agent_trainer import two_process_run


def result_of_two(project: Path, folder: Path) -> dict[str, Any]:
    folder.mkdir()
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "PYTHONPATH": str(project)}
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2"]
    command = [*launcher, "-m", "tests.agent_trainer.two_process_run", str(folder)]
    done = subprocess.run(
        command, cwd=project, env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    loaded: dict[str, Any] = torch.load(folder / "result.pt")
    return loaded


def test_two_processes_learn_what_one_does(project_root: Path, tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    two_process_run.main(tmp_path / "one")
    one = torch.load(tmp_path / "one" / "result.pt")
    two = result_of_two(project_root, tmp_path / "two")
    for name, weight in one["weights"].items():
        assert torch.allclose(weight, two["weights"][name], atol=1e-6), name
    for alone, together in zip(one["log"], two["log"], strict=True):
        assert alone == pytest.approx(together, abs=1e-5)
    assert (tmp_path / "two" / "episodes.rank1.jsonl").is_file()
