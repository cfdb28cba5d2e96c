"""The passages that a retriever searches: those that came with a set's questions, or a file of their own."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from agent_envs.data.records import Passage, Question
from agent_envs.data.rows import read_rows
from agent_envs.errors import DataError


def corpus_of(questions: Iterable[Question]) -> tuple[Passage, ...]:
    """The paragraphs of all questions, each once, in the order of their first appearance.

    Titles repeat in real sets (two editions of one article), so a passage is the same only if title and text are.
    """
    return tuple(dict.fromkeys(passage for question in questions for passage in question.passages))


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
