"""Recall by hand-worked numbers."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from agent_envs.data.records import Passage, Question
from agent_envs.errors import ConfigError
from agent_envs.retrieval.base import Hit
from agent_envs.retrieval.measure import measure

A, B, C = (Passage(name, f"text of {name}") for name in "ABC")
OTHER_A = Passage("A", "another text")


class Fixed:
    """Always finds the same."""

    def __init__(self, *passages: Passage) -> None:
        self.passages = passages
        self.batches: list[int] = []

    def search(self, queries: Sequence[str], top_k: int) -> list[list[Hit]]:
        self.batches.append(len(queries))
        return [[Hit(passage, 1.0) for passage in self.passages[:top_k]] for _ in queries]


def question(number: int, *titles: str, gold: tuple[Passage, ...] = ()) -> Question:
    return Question(f"q{number}", f"question {number}?", ("a",), "bridge", tuple((t, 0) for t in titles), (), gold)


def test_recall_is_the_mean_share_of_gold_passages_among_the_first_k() -> None:
    questions = [question(0, "A", "B"), question(1, "C"), question(2, "B", "X")]
    measured = measure(Fixed(A, B, C), questions, ks=(1, 2, 3))
    # at 1: 1/2, 0, 0; at 2: 1, 0, 1/2; at 3: 1, 1, 1/2
    assert measured.recall == pytest.approx({1: 1 / 6, 2: 1 / 2, 3: 5 / 6})
    assert measured.questions == 3
    assert measured.queries_per_s > 0


def test_where_titles_repeat_only_the_right_passage_counts() -> None:
    assert measure(Fixed(OTHER_A, B), [question(0, "A", gold=(A,))], ks=(2,)).recall == {2: 0.0}
    assert measure(Fixed(B, A), [question(0, "A", gold=(A,))], ks=(2,)).recall == {2: 1.0}


def test_questions_are_asked_in_batches_after_a_first_one_that_does_not_count() -> None:
    retriever = Fixed(A)
    measure(retriever, [question(number, "A") for number in range(5)], ks=(1,), batch=2)
    assert retriever.batches == [2, 2, 2, 1]


@pytest.mark.parametrize(("questions", "ks", "batch"), [([], (1,), 1), ([question(0, "A")], (0,), 1)])
def test_wrong_numbers_are_refused(questions: list[Question], ks: tuple[int, ...], batch: int) -> None:
    with pytest.raises(ConfigError, match="expected questions, and ks and a batch >= 1"):
        measure(Fixed(A), questions, ks, batch)
