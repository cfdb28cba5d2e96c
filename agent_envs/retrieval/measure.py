"""How good and how fast a retriever is: recall of gold passages, and queries per second."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from agent_envs.data.records import Question
from agent_envs.errors import ConfigError
from agent_envs.retrieval.base import Hit, Retriever
from agent_envs.scoring import support_recall


@dataclass(frozen=True, slots=True)
class Measured:
    """One retriever on some questions.

    Attributes:
        questions: how many were asked.
        recall: by k, the share of a question's gold passages among the first k hits, 0 to 1, averaged over questions.
        queries_per_s: in batches, the encoding of the queries included.
    """

    questions: int
    recall: Mapping[int, float]
    queries_per_s: float


def measure(
    retriever: Retriever, questions: Sequence[Question], ks: Sequence[int] = (1, 5, 10), batch: int = 64
) -> Measured:
    """Asks each question once, as it is worded. What a retriever does only the first time is done before the clock.

    Args:
        retriever: to measure.
        questions: whose gold passages are known by title, or by title and text where titles repeat.
        ks: ranks to look at recall at, each >= 1.
        batch: queries of one search, >= 1.

    Raises:
        ConfigError: there is no question, or a number is out of range.
    """
    if not questions or not ks or min(ks) < 1 or batch < 1:
        raise ConfigError(f"expected questions, and ks and a batch >= 1; got {len(questions)} questions, {ks}, {batch}")
    queries = [question.question for question in questions]
    retriever.search(queries[:batch], max(ks))
    begin = time.perf_counter()
    found = [
        hits
        for start in range(0, len(queries), batch)
        for hits in retriever.search(queries[start : start + batch], max(ks))
    ]
    seconds = time.perf_counter() - begin
    recall = {k: _mean_recall(questions, found, k) for k in sorted(set(ks))}
    return Measured(len(questions), recall, len(queries) / seconds)


def _mean_recall(questions: Sequence[Question], found: Sequence[Sequence[Hit]], k: int) -> float:
    recalls = []
    for question, hits in zip(questions, found, strict=True):
        names = [name for hit in hits[:k] for name in (hit.passage.title, hit.passage.key)]
        recalls.append(support_recall(names, question.gold_keys))
    return sum(recalls) / len(recalls)
