"""The rows of a question-answering set, after reading and checking."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Passage:
    """A titled paragraph. Titles repeat in real corpora: the pair is the key."""

    title: str
    text: str


@dataclass(frozen=True, slots=True)
class Question:
    """One question with everything its set says of it.

    Attributes:
        task_id: unique within its split.
        answers: the accepted answers, the preferred one first; never empty.
        kind: the set's own question type, such as ``bridge`` or ``comparison``.
        supporting_facts: ``(title, index of the sentence)`` pairs that the answer rests on.
        passages: the paragraphs that came with the question (gold and distractors).
    """

    task_id: str
    question: str
    answers: tuple[str, ...]
    kind: str
    supporting_facts: tuple[tuple[str, int], ...]
    passages: tuple[Passage, ...]

    @property
    def gold_titles(self) -> tuple[str, ...]:
        """The titles of the gold paragraphs, each once, in the order of the supporting facts."""
        return tuple(dict.fromkeys(title for title, _ in self.supporting_facts))
