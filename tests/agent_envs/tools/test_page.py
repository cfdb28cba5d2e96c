"""The page on tools says what is so: its examples run."""

from __future__ import annotations

import re
import sys
import types
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[3] / "docs" / "tools.md"


def test_the_examples_of_the_page_run(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("mcp_server_time", reason="the page speaks to this server")
    module = types.ModuleType("page")  # pydantic looks a class's module up
    monkeypatch.setitem(sys.modules, "page", module)
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert len(blocks) == 4
    for block in blocks:
        exec(compile(block, str(PAGE), "exec", dont_inherit=True), module.__dict__)
