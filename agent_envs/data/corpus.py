"""A corpus to search, read from a file."""

from __future__ import annotations

from pathlib import Path

from agent_envs.data.records import Passage
from agent_envs.data.rows import read_rows
from agent_envs.errors import DataError


def read_corpus(path: str | Path) -> tuple[Passage, ...]:
    """The passages of a JSON Lines file (or a JSON array) with the fields ``title`` and ``text``, each once, in order.

    Raises:
        DataError: the file is missing, empty or malformed; the message names the row and the field.
    """
    passages = tuple(
        dict.fromkeys(Passage(row.text("title"), row.check_text(row.value("text"), "text")) for row in read_rows(path))
    )
    if not passages:
        raise DataError(f"{path}: the corpus is empty; expected at least one passage with a title and a text")
    return passages
