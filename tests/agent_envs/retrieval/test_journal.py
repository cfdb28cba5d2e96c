"""A stage goes on behind its last checkpoint, and only with the same settings."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent_envs.errors import ConfigError, DataError
from agent_envs.retrieval.journal import Journal

SETTINGS = {"kind": "flat", "pieces": [1, 2]}


def test_what_was_written_behind_the_last_checkpoint_is_cut_off(tmp_path: Path) -> None:
    journal = Journal(tmp_path, SETTINGS)
    with journal.appending("read", ["a", "b"]) as files:
        files[0].write(b"one")
        files[1].write(b"1")
        journal.checkpoint("read", 1, files)
        files[0].write(b"half of tw")
    assert (tmp_path / "a").read_bytes() == b"onehalf of tw"
    again = Journal(tmp_path, SETTINGS)
    assert again.rows("read") == 1
    with again.appending("read", ["a", "b"]) as files:
        files[0].write(b"two")
        again.checkpoint("read", 2, files)
    assert ((tmp_path / "a").read_bytes(), (tmp_path / "b").read_bytes()) == (b"onetwo", b"1")


def test_a_stage_that_has_no_checkpoint_begins_with_empty_files(tmp_path: Path) -> None:
    with Journal(tmp_path, SETTINGS).appending("read", ["a"]) as files:
        files[0].write(b"lost")
    with Journal(tmp_path, SETTINGS).appending("read", ["a"]):
        pass
    assert (tmp_path / "a").read_bytes() == b""


def test_finished_stages_are_remembered(tmp_path: Path) -> None:
    Journal(tmp_path, SETTINGS).finish("read")
    again = Journal(tmp_path, SETTINGS)
    assert again.is_done("read")
    assert not again.is_done("encode")


def test_a_build_of_other_settings_is_refused_and_the_difference_said(tmp_path: Path) -> None:
    Journal(tmp_path, SETTINGS)
    with pytest.raises(ConfigError, match="other settings is in the way: kind was 'flat' and is 'ivf'"):
        Journal(tmp_path, {**SETTINGS, "kind": "ivf"})


def test_a_folder_with_other_files_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("years of work", encoding="utf-8")
    with pytest.raises(ConfigError, match="expected an empty folder or none"):
        Journal(tmp_path, SETTINGS)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


def test_an_unreadable_journal_is_a_data_error(tmp_path: Path) -> None:
    (tmp_path / "build.json").write_text("{", encoding="utf-8")
    with pytest.raises(DataError, match="delete the folder and build anew"):
        Journal(tmp_path, SETTINGS)
