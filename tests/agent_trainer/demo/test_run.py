from __future__ import annotations

import io
import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import transformers
from rich.console import Console

from agent_envs.errors import ConfigError
from agent_trainer.demo.run import free_folder, run_demo
from agent_trainer.progress import HistoryFile
from agent_trainer.records import read_jsonl
from tests.agent_trainer.small_training import tiny_model

SMALL = (
    "env_kwargs.tokenizer=byte",
    "max_turns=1",
    "max_turn_tokens=4",
    "max_context=1800",
    "prompts_per_step=1",
    "group_size=2",
    "per_device_train_batch_size=2",
    "env_threads=2",
)


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    """A random policy over bytes: it cannot win, but everything runs."""
    folder = tmp_path / "policy"
    model = tiny_model()
    model.config.max_position_embeddings = 2048
    model.save_pretrained(folder)
    return folder


def talk() -> Console:
    return Console(file=io.StringIO(), width=100)


def said(console: Console) -> str:
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_the_whole_story_leaves_everything_that_it_promises(
    tmp_path: Path, policy: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    console, out = talk(), tmp_path / "runs" / "demo"
    verbosity = transformers.logging.get_verbosity()
    summary = run_demo(out, seed=3, updates=2, questions=3, policy=policy, overrides=SMALL, console=console)

    assert (summary.updates, summary.seed, summary.after.questions) == (2, 3, 3)
    for name in ("curve.png", "before_after.html", "summary.json", "summary.md", "model/model.safetensors"):
        assert (out / name).stat().st_size > 0, name
    before, after = ({line["task_id"] for line in read_jsonl(out / f"{name}.jsonl")} for name in ("before", "after"))
    assert before == after and len(before) == 3
    assert all(task_id.startswith("mini/test/") for task_id in before)
    trained_on = [line["task_id"] for line in read_jsonl(out / "episodes.jsonl")]
    assert len(trained_on) == 4 and all(task_id.startswith("mini/train/") for task_id in trained_on)
    assert [line["step"] for line in read_jsonl(out / "history.jsonl") if "reward" in line] == [1, 2]
    assert any((out / "tensorboard").iterdir())
    assert json.loads((out / "summary.json").read_text())["seed"] == 3

    shown = said(console)
    for expected in ("exact match", "do not lie apart", f"In {out}:", "before_after.html"):
        assert expected in shown
    assert capfd.readouterr() == ("", "")  # nothing of the libraries' talk
    assert transformers.logging.get_verbosity() == verbosity


@pytest.fixture
def ctrl_c_counts() -> Iterator[None]:
    """Ctrl-C raises, although a shell that runs the tests in the background tells its children to ignore it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("ctrl_c_counts")
def test_ctrl_c_in_training_keeps_what_was_written_and_says_so(
    tmp_path: Path, policy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def press(self: HistoryFile, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self._writer.write(state.log_history[-1])
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(HistoryFile, "on_log", press)
    console, out = talk(), tmp_path / "demo"
    with pytest.raises(KeyboardInterrupt):
        run_demo(out, updates=50, questions=2, policy=policy, overrides=SMALL, console=console)
    assert len(list(read_jsonl(out / "before.jsonl"))) == 2
    assert len(list(read_jsonl(out / "history.jsonl"))) == 1
    assert len(list(read_jsonl(out / "episodes.jsonl"))) == 2
    assert (out / "curve.png").is_file() and (out / "checkpoint-1" / "model.safetensors").is_file()
    assert "Stopped. What was written until now stays" in said(console) and "checkpoint-1" in said(console)


def test_a_folder_with_something_in_it_is_left_alone(tmp_path: Path) -> None:
    wanted = tmp_path / "runs" / "demo"
    assert free_folder(wanted) == wanted
    assert free_folder(wanted) == wanted  # empty still
    (wanted / "mine").touch()
    assert free_folder(wanted) == tmp_path / "runs" / "demo-2"
    (tmp_path / "runs" / "demo-2").rmdir()
    (tmp_path / "runs" / "demo-2").touch()  # a file of that name
    assert free_folder(wanted) == tmp_path / "runs" / "demo-3"


def test_wrong_options_are_refused_before_anything_is_written(tmp_path: Path, policy: Path) -> None:
    out = tmp_path / "demo"
    with pytest.raises(ConfigError, match="no policy in"):
        run_demo(out, policy=tmp_path, console=talk())
    with pytest.raises(ConfigError, match="held-out questions; train on another part"):
        run_demo(out, policy=policy, overrides=["env_kwargs.split=mini/test"], console=talk())
    with pytest.raises(ConfigError, match="unknown option 'learning_rat'"):
        run_demo(out, policy=policy, overrides=["learning_rat=1"], console=talk())
    assert not out.exists()
