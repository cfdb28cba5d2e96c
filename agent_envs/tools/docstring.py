"""What a Google-style docstring says of a function: its first paragraph, and a note for each parameter."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any


def read_docstring(function: Callable[..., Any]) -> tuple[str, dict[str, str]]:
    """The first paragraph on one line, and the notes of the ``Args:`` section by parameter."""
    doc = inspect.getdoc(function) or ""
    description = " ".join(doc.split("\n\n")[0].split())
    notes: dict[str, str] = {}
    current: str | None = None
    lines = _section(doc, "Args:")
    indent = min((_indent(line) for line in lines), default=0)
    for line in lines:
        head, colon, rest = line.strip().partition(":")
        if colon and _indent(line) == indent:
            current = head.split("(")[0].strip()  # "limit (int, optional)" names limit
            notes[current] = rest.strip()
        elif current is not None:
            notes[current] = f"{notes[current]} {line.strip()}".strip()
    return description, notes


def _section(doc: str, title: str) -> list[str]:
    """The lines under a title that stands alone on an unindented line, up to the next unindented one."""
    lines = doc.splitlines()
    if title not in lines:
        return []
    body = []
    for line in lines[lines.index(title) + 1 :]:
        if line.strip() and not line.startswith(" "):
            break
        if line.strip():
            body.append(line)
    return body


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())
