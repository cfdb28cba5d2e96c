"""The documentation is tested like code: what a page says is printed is printed, its commands and its links exist."""

from __future__ import annotations

import contextlib
import io
import re
import shlex
from pathlib import Path

import pytest

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
