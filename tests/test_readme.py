"""The README is tested like code: its Python runs, prints what it says, and its commands exist."""

from __future__ import annotations

import contextlib
import io
import re
import shlex
from pathlib import Path

import pytest

BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


@pytest.fixture(scope="module")
def blocks(project_root: Path) -> list[tuple[str, str]]:
    """The fenced blocks of the README: language and text."""
    return BLOCK.findall((project_root / "README.md").read_text())


def run(code: str) -> str:
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code, "README.md", "exec"), {"__name__": "__main__"})
    return printed.getvalue()


def test_the_examples_print_what_the_readme_says(blocks: list[tuple[str, str]]) -> None:
    codes = [text for language, text in blocks if language == "python" and "AgentTrainer" not in text]
    outputs = [text for language, text in blocks if language == "text"]
    assert len(codes[0].splitlines()) <= 21 and len(codes[1].splitlines()) < 30
    for code, printed in zip(codes[:2], outputs[:2], strict=True):
        assert run(code) == printed


def test_the_training_example_trains(
    blocks: list[tuple[str, str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (code,) = [text for language, text in blocks if language == "python" and "AgentTrainer" in text]
    monkeypatch.chdir(tmp_path)
    run(code)
    assert (tmp_path / "runs" / "first" / "episodes.jsonl").stat().st_size > 0


def test_every_command_exists_and_every_recipe_too(blocks: list[tuple[str, str]], project_root: Path) -> None:
    from typer.main import get_command

    from agent_trainer.cli import app

    known = set(get_command(app).commands)  # type: ignore[attr-defined]
    lines = [line for language, text in blocks if language == "bash" for line in text.splitlines()]
    text = (project_root / "README.md").read_text()
    commands = [shlex.split(line, comments=True) for line in lines] + [
        shlex.split(inline) for inline in re.findall(r"`(agentr1 [^`]+)`", text)
    ]
    used = [command for command in commands if command and command[0] == "agentr1"]
    assert len(used) >= 5
    for command in used:
        assert command[1] in known
        if command[1] == "train":
            assert (project_root / "agent_trainer" / "recipes" / f"{command[2]}.yaml").exists()
    makefile = (project_root / "Makefile").read_text()
    for command in commands:
        if command and command[0] == "make":
            assert f"\n{command[1]}:" in makefile


def test_the_map_names_what_is_there(blocks: list[tuple[str, str]], project_root: Path) -> None:
    (tree,) = [text for language, text in blocks if language == "text" and text.startswith("agent_envs/")]
    top = ""
    for line in tree.splitlines():
        words = [word.rstrip(";") for word in line.split()]
        if not line.startswith(" "):
            top = words[0]
            assert (project_root / top).is_dir(), top
            continue
        for word in words:
            if word.endswith((".py", "/")) and "(" not in word:
                assert (project_root / top / word).exists(), f"{top}{word}"
