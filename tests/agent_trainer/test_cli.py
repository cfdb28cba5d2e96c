from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
import torch

from agent_trainer.cli import main
from tests.agent_trainer.small_training import tiny_model

RECIPE = """
env_id: AgentR1/HotpotQA-v0
env_kwargs: {tokenizer: byte, reward: f1}
max_turns: 2
max_turn_tokens: 8
max_context: 1800
prompts_per_step: 1
group_size: 2
per_device_train_batch_size: 2
max_steps: 1
save_strategy: no
report_to: none
disable_tqdm: true
"""


@pytest.fixture
def model_folder(tmp_path: Path) -> Path:
    torch.set_num_threads(1)
    model = tiny_model()
    model.config.max_position_embeddings = 2048
    model.save_pretrained(tmp_path / "model")
    return tmp_path / "model"


def run(monkeypatch: pytest.MonkeyPatch, *words: str) -> int:
    monkeypatch.setattr(sys, "argv", ["agentr1", *words])
    with pytest.raises(SystemExit) as end:
        main()
    return int(end.value.code or 0)


@pytest.mark.parametrize("command", [(), ("train",), ("eval",)])
def test_help_teaches(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], command: tuple[str, ...]
) -> None:
    assert run(monkeypatch, *command, "--help") == 0
    shown = capsys.readouterr().out
    assert "Usage" in shown
    assert not command or f"agentr1 {command[0]}" in shown


def test_train_and_eval_do_what_they_say(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path, model_folder: Path
) -> None:
    (tmp_path / "mine.yaml").write_text(RECIPE)
    out = tmp_path / "out"
    assert run(monkeypatch, "train", str(tmp_path / "mine.yaml"), f"model={model_folder}", f"output_dir={out}") == 0
    assert "1 prompts x 2 episodes" in capsys.readouterr().out
    assert (out / "model.safetensors").is_file()
    assert len((out / "episodes.jsonl").read_text().splitlines()) == 2
    words = ("--recipe", str(tmp_path / "mine.yaml"), "--split", "mini/test", "-n", "2")
    assert run(monkeypatch, "eval", str(out), "AgentR1/HotpotQA-v0", *words, "--output", str(tmp_path / "eval")) == 0
    assert "em" in capsys.readouterr().out
    summary = json.loads((tmp_path / "eval" / "summary.json").read_text())
    assert summary["questions"] == 2
    assert summary["env_options"] == {
        "tokenizer": "byte",
        "reward": "f1",
        "max_turns": 2,
        "max_turn_tokens": 8,
        "max_context": 1800,
        "split": "mini/test",
    }
    assert len((tmp_path / "eval" / "episodes.jsonl").read_text().splitlines()) == 2


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("train", "nope"), "no file and no recipe 'nope'"),
        (("train", "hotpotqa_grpo", "learning_rat=1"), "Did you mean 'learning_rate'"),
        (("train", "hotpotqa_grpo", "model=/nowhere", "report_to=none"), "cannot load the tokenizer '/nowhere'"),
        (("eval", "/nowhere", "AgentR1/HotpotQA-v0"), "cannot load the model '/nowhere'"),
        (("eval", "/nowhere", "AgentR1/Hotpot-v0"), "unknown environment 'AgentR1/Hotpot-v0'"),
        (("eval", "x", "AgentR1/HotpotQA-v0", "split=a", "--split", "b"), "--split is 'b', but split='a'"),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_2(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], message: str
) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert run(monkeypatch, *words) == 2
    shown = capsys.readouterr().err.strip().splitlines()[-1]
    assert shown.startswith("error: ")
    assert message in shown


def test_an_adapter_that_does_not_fit_the_model_is_one_line_too(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path, model_folder: Path
) -> None:
    (tmp_path / "mine.yaml").write_text(RECIPE + "lora: {target_modules: [nope]}\n")
    words = (f"model={model_folder}", f"output_dir={tmp_path / 'out'}")
    assert run(monkeypatch, "train", str(tmp_path / "mine.yaml"), *words) == 2
    assert "nope" in capsys.readouterr().err


def test_ctrl_c_in_training_ends_without_a_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path, model_folder: Path
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    (tmp_path / "mine.yaml").write_text(RECIPE)
    monkeypatch.setattr("agent_trainer.trainer.AgentTrainer._compute_loss", interrupted)
    words = (f"model={model_folder}", f"output_dir={tmp_path / 'out'}")
    assert run(monkeypatch, "train", str(tmp_path / "mine.yaml"), *words) == 130
    shown = capsys.readouterr().out
    assert "stopped after step 0" in shown
    assert "--resume" not in shown  # there is nothing to resume from
    assert len((tmp_path / "out" / "episodes.jsonl").read_text().splitlines()) == 2
