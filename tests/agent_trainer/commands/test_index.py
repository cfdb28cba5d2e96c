"""``agentr1 index``: build, info and bench, on a task's corpus and on files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from agent_envs.errors import ConfigError, DataError
from agent_trainer.cli import app

RUNNER = CliRunner(env={"COLUMNS": "160", "TERM": "dumb"})
HOTPOT = "AgentR1/HotpotQA-v0"


def run(*words: str | Path) -> str:
    return RUNNER.invoke(app, ["index", *map(str, words)], catch_exceptions=False).output


def test_a_tasks_own_corpus_is_built_shown_and_measured(tmp_path: Path) -> None:
    folder, figures = tmp_path / "bm25", tmp_path / "figures" / "bench.json"
    assert "passages, bm25" in run("build", HOTPOT, "-o", "split=mini/test", "--out", folder, "-p", "k1=1.2")
    shown = run("info", folder, "--verify")
    assert "k1 1.2" in shown
    assert f"of {HOTPOT}" in shown
    assert shown.count("intact") == 6
    table = run(
        "bench", folder, f"{folder},{folder}", "--env", HOTPOT, "-o", "split=mini/test", "-n", "40", "--json", figures
    )
    assert "40 questions of AgentR1/HotpotQA-v0" in table
    kept = json.loads(figures.read_text(encoding="utf-8"))
    assert list(kept) == [str(folder), f"{folder},{folder}"]
    recall = kept[str(folder)]["recall"]
    assert 0 < recall["1"] <= recall["5"] <= recall["10"] <= 1
    assert kept[f"{folder},{folder}"]["recall"] == recall  # fused with itself, a ranking stays


def test_a_file_is_built(tmp_path: Path) -> None:
    corpus = tmp_path / "corpus.jsonl"
    corpus.write_text('{"id": "1", "contents": "\\"Mill\\"\\nA house."}\n', encoding="utf-8")
    assert "1 passages, bm25" in run("build", corpus, "--out", tmp_path / "index")
    assert "1 of corpus.jsonl" in run("info", tmp_path / "index")


@pytest.mark.parametrize(
    ("words", "error", "message"),
    [
        (["build", "no-such.jsonl"], DataError, "expected a file of passages"),
        (["build", "no-such.jsonl", "-o", "split=mini"], ConfigError, "mean nothing to it: leave out -o"),
        (["build", HOTPOT, "--query-prefix", "q"], ConfigError, "give --model too"),
        (["build", HOTPOT, "--kind", "flat"], ConfigError, "needs an encoder, or a flat index"),
        (["build", HOTPOT, "-p", "k1=high"], ConfigError, "the parameter k1 is a number, not 'high'"),
        (["build", "AgentR1/HotpotQA-v7"], ConfigError, "unknown environment"),
        (["build", "AgentR1/GSM8K-v0"], ConfigError, "has no passages to search"),
    ],
)
def test_wrong_words_say_what_is_expected(
    words: list[str], error: type[Exception], message: str, tmp_path: Path
) -> None:
    with pytest.raises(error, match=message):
        run(*words, "--out", tmp_path / "index")


def test_wrong_ranks_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="-k is a list of whole numbers >= 1"):
        run("bench", tmp_path, "--env", HOTPOT, "-k", "1,x")
