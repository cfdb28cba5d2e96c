"""Folders laid out as data set repositories, which ``datasets`` loads by the same call as those on the Hub."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest


def lay_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows: Sequence[dict[str, Any]], config: str = "default"
) -> Path:
    """The folder of a data set with a ``validation`` split; skips the test where ``datasets`` is missing."""
    datasets = pytest.importorskip("datasets", reason="needs the extra `train`")
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    datasets.disable_progress_bars()
    folder = tmp_path / "copy"
    folder.mkdir()
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    (folder / "README.md").write_text(
        f"---\nconfigs:\n- config_name: {config}\n  data_files:\n  - split: validation\n    path: rows.jsonl\n---\n"
    )
    return folder
