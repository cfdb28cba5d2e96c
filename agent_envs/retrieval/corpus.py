"""The passages that a retriever searches where no corpus is given: those that came with a set's questions."""

from __future__ import annotations

from collections.abc import Iterable

from agent_envs.data.records import Passage, Question


def corpus_of(questions: Iterable[Question]) -> tuple[Passage, ...]:
    """The paragraphs of all questions, each once, in the order of their first appearance.

    Titles repeat in real sets (two editions of one article), so a passage is the same only if title and text are.
    """
    return tuple(dict.fromkeys(passage for question in questions for passage in question.passages))
