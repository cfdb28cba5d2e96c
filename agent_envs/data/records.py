"""The rows of a question-answering set, after reading and checking."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

_QUERY_WORDS = 12


@dataclass(frozen=True, slots=True)
class Passage:
    """A titled paragraph. Titles repeat in real corpora: the pair is the key."""

    title: str
    text: str

    @property
    def key(self) -> str:
        """A short name for this very passage: the title and a hash of the text."""
        return f"{self.title}#{hashlib.sha256(self.text.encode()).hexdigest()[:8]}"


@dataclass(frozen=True, slots=True)
class SubQuestion:
    """One hop of a question.

    Attributes:
        question: in the set's own words; ``#1`` stands for the answer of the first hop, and so on.
        answer: of this hop.
        passage: the paragraph that tells it; None where the set names none.
    """

    question: str
    answer: str
    passage: Passage | None


@dataclass(frozen=True, slots=True)
class Question:
    """One question with everything its set says of it.

    Attributes:
        task_id: unique within its split.
        answers: the accepted answers, the preferred one first; never empty.
        kind: the set's own question type, such as ``bridge`` or ``comparison``.
        supporting_facts: ``(title, index of the sentence)`` pairs that the answer rests on.
        passages: the paragraphs that came with the question (gold and distractors).
        gold_passages: the paragraphs that the answer rests on, hop by hop, where the set marks them one by one because
            titles repeat; empty where titles tell them.
        decomposition: the hops, where the set has them.
        evidences: ``(subject, relation, object)`` triples that the answer follows from, where the set has them.
    """

    task_id: str
    question: str
    answers: tuple[str, ...]
    kind: str
    supporting_facts: tuple[tuple[str, int], ...]
    passages: tuple[Passage, ...]
    gold_passages: tuple[Passage, ...] = ()
    decomposition: tuple[SubQuestion, ...] = ()
    evidences: tuple[tuple[str, str, str], ...] = ()

    @property
    def gold_titles(self) -> tuple[str, ...]:
        """The titles of the gold paragraphs, each once, in the order of the supporting facts."""
        return tuple(dict.fromkeys(title for title, _ in self.supporting_facts))

    @property
    def gold_keys(self) -> tuple[str, ...]:
        """What tells that a gold paragraph was found: keys of passages where titles repeat, else titles."""
        return tuple(dict.fromkeys(passage.key for passage in self.gold_passages)) or self.gold_titles

    @property
    def gold_queries(self) -> tuple[str, ...]:
        """A search query for each gold paragraph: its title, and the text's first words where titles repeat."""
        exact = (f"{p.title} {' '.join(p.text.split()[:_QUERY_WORDS])}" for p in self.gold_passages)
        return tuple(dict.fromkeys(exact)) or self.gold_titles
