"""Measures what the embedded worlds give away without a search for every hop.

Shares of the questions, per set and part:

- closed book: the best single answer per type of question ("earlier" and "later" comparisons count the better of "the
  first one named" and "the second one named"), chosen with hindsight on the part itself, so an upper bound of guessing;
- one search: every gold passage is among the best 3 (5) for the question's own words;
- chains: closed book and one search (top 5) once more, over the questions that are no comparisons (whose answer is one
  of two, and where the question of a plain comparison names both passages);
- oracle: a search for every gold title finds every gold passage among the best 1 (3).

Run: ``python benchmarks/bench_world_shortcuts.py`` (needs no extra; half a minute). It prints the table and keeps the
figures in ``benchmarks/results/world_shortcuts.json``.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

from agent_envs.data.mini_hotpot import MINI_HOTPOT
from agent_envs.data.mini_musique import MINI_MUSIQUE
from agent_envs.data.mini_set import MiniSet
from agent_envs.data.mini_two_wiki import MINI_TWO_WIKI
from agent_envs.data.records import Passage, Question
from agent_envs.retrieval import Bm25Retriever, corpus_of

RESULTS = Path(__file__).parent / "results" / "world_shortcuts.json"
SETS = (MINI_HOTPOT, MINI_TWO_WIKI, MINI_MUSIQUE)

Search = Callable[[Sequence[str], int], list[list[Passage]]]


def make_search(questions: Sequence[Question]) -> Search:
    """BM25 over the union of the questions' passages, as the environment's search tool does it."""
    retriever = Bm25Retriever(corpus_of(questions))

    def search(queries: Sequence[str], top_k: int) -> list[list[Passage]]:
        return [[hit.passage for hit in hits] for hits in retriever.search(queries, top_k)]

    return search


def closed_book(questions: Sequence[Question]) -> float:
    """The share that the best fixed answer per type of question gets right."""
    answers: dict[str, Counter[str]] = {}
    for question in questions:
        answers.setdefault(_group(question), Counter())[_guessable_answer(question)] += 1
    return sum(max(counts.values()) for counts in answers.values()) / len(questions)


def _group(question: Question) -> str:
    if not _is_comparison(question):
        return question.kind
    return f"{question.kind}, {'yes or no' if question.answers[0] in ('yes', 'no') else 'order'}"


def _is_comparison(question: Question) -> bool:
    return question.kind.endswith("comparison")


def _guessable_answer(question: Question) -> str:
    if _group(question).endswith("order"):
        return f"name {question.gold_titles.index(question.answers[0])}"
    return question.answers[0]


def one_search(questions: Sequence[Question], search: Search, top_k: int) -> float:
    """The share whose gold passages all come up for the words of the question."""
    found = search([question.question for question in questions], top_k)
    return _share_complete(questions, found)


def oracle(questions: Sequence[Question], search: Search, top_k: int) -> float:
    """The share whose gold passages all come up for the gold titles, one search each."""
    found = [[hit for hits in search(question.gold_titles, top_k) for hit in hits] for question in questions]
    return _share_complete(questions, found)


def _share_complete(questions: Sequence[Question], found: Sequence[Sequence[Passage]]) -> float:
    complete = [
        set(question.gold_titles) <= {passage.title for passage in passages}
        for question, passages in zip(questions, found, strict=True)
    ]
    return sum(complete) / len(questions)


def measure(mini: MiniSet, part: str) -> dict[str, float]:
    """The figures of one part, by column."""
    questions = mini.split(part)
    chains = [question for question in questions if not _is_comparison(question)]
    search = make_search(questions)
    return {
        "questions": len(questions),
        "passages": len(corpus_of(questions)),
        "closed book": round(closed_book(questions), 3),
        "one, top 3": round(one_search(questions, search, 3), 3),
        "one, top 5": round(one_search(questions, search, 5), 3),
        "chains closed": round(closed_book(chains), 3),
        "chains, top 5": round(one_search(chains, search, 5), 3),
        "oracle, top 1": round(oracle(questions, search, 1), 3),
        "oracle, top 3": round(oracle(questions, search, 3), 3),
    }


def main() -> None:
    """Prints the table and writes it down."""
    figures = {mini.name: {part: measure(mini, part) for part in mini.parts} for mini in SETS}
    columns = next(iter(figures["HotpotQA"].values()))
    print(f"{'set':17}{'part':12}" + "".join(f"{column:>15}" for column in columns))
    for name, parts in figures.items():
        for part, row in parts.items():
            print(f"{name:17}{part:12}" + "".join(f"{value:15.5g}" for value in row.values()))
    RESULTS.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
