"""The documentation is tested like code: what a page says is printed is printed, its commands and its links exist."""

from __future__ import annotations

import contextlib
import io
import re
import shlex
from pathlib import Path

import pytest

from agent_envs.tasks.catalogue import TASKS

ROOT = Path(__file__).parent.parent
PAGES = sorted((ROOT / "docs").glob("*.md"))
EXAMPLE = re.compile(r"^```python\n(.*?)^```\n\n```text\n(.*?)^```$", re.DOTALL | re.MULTILINE)
PYTHON = re.compile(r"^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)
SHELL = re.compile(r"^```bash\n(.*?)^```$", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"\]\(([^)#]+)(?:#[^)]*)?\)")
EXAMPLES = [(page.name, *pair) for page in PAGES for pair in EXAMPLE.findall(page.read_text())]


@pytest.mark.parametrize(("page", "code", "printed"), EXAMPLES, ids=[f"{page}" for page, _, _ in EXAMPLES])
def test_an_example_prints_what_the_page_says(
    page: str, code: str, printed: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(code, page, "exec"), {"__name__": "__main__"})
    assert out.getvalue() == printed


def test_some_pages_have_examples_that_run() -> None:
    assert len(EXAMPLES) >= 1


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_all_python_on_a_page_is_python(page: Path) -> None:
    for code in PYTHON.findall(page.read_text()):
        compile(code, page.name, "exec")


@pytest.mark.parametrize("page", [*PAGES, ROOT / "README.md", ROOT / "CONTRIBUTING.md"], ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for target in LINK.findall(page.read_text()):
        if "://" not in target:
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_commands_on_a_page_exist(page: Path) -> None:
    from typer.main import get_command

    from agent_trainer.cli import app

    known = set(get_command(app).commands)  # type: ignore[attr-defined]
    for block in SHELL.findall(page.read_text()):
        for line in block.replace("\\\n", " ").splitlines():
            words = shlex.split(line, comments=True)
            if words[:1] == ["agentr1"]:
                assert words[1] in known, line
            if words[:1] == ["python"] and words[1].endswith(".py") and words[1].startswith("benchmarks/"):
                assert (ROOT / words[1]).exists(), line


REFERENCE = re.compile(r"^\| (?:(`AgentR1/.*?`) ?(.*?)|) \| ([a-z-]+) \| (-?\d\.\d{3}) \|", re.MULTILINE)
PAGE_OF = dict(re.findall(r"\[`(AgentR1/.+?)`\]\(docs/(.+?)\)", (ROOT / "README.md").read_text()))
DEMANDED = ("**Task", "**Observation", "**Action", "**Reward", "**Terminated", "**Truncated", "Tool", "icence")


def reference_returns() -> dict[tuple[str, str], float]:
    """The returns of ``docs/environments.md`` by id and policy, of the ids as they are by default."""
    returns, env_id, options = {}, "", ""
    for named, with_options, policy, number in REFERENCE.findall((ROOT / "docs/environments.md").read_text()):
        env_id, options = (named.strip("`"), with_options) if named else (env_id, options)
        if not options:
            returns[env_id, policy] = float(number)
    return returns


def test_every_id_has_a_page() -> None:
    assert set(PAGE_OF) == {TASKS.get(name).env_id for name in TASKS}


@pytest.mark.parametrize("env_id", sorted(PAGE_OF))
def test_the_page_of_an_environment_says_all_that_such_a_page_has(env_id: str) -> None:
    text = (ROOT / "docs" / Path(PAGE_OF[env_id]).name).read_text()
    for words in DEMANDED:
        assert words in text or words.lower().strip("*") in text, f"{env_id}: nothing on {words.strip('*')}"


@pytest.mark.parametrize("env_id", sorted(PAGE_OF))
def test_the_returns_on_a_page_are_those_of_the_table(env_id: str) -> None:
    text = (ROOT / "docs" / Path(PAGE_OF[env_id]).name).read_text()
    words = {
        "oracle": r"[Oo]racle",
        "random-tokens": "[Rr]andom tokens",
        "answer-without-tools": r"without an? (?:tool|call)|without tools",
    }
    for policy, pattern in words.items():
        found = re.search(rf"(?:{pattern})[^.\d-]*?(-?[01]?\.\d{{3}})", text)
        assert found, f"{env_id}: no return of {policy}"
        assert float(found.group(1)) == reference_returns()[env_id, policy], f"{env_id}: {policy}"
