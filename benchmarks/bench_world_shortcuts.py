"""Measures what the embedded HotpotQA gives away without two searches.

Three shortcuts, per part, as shares of the questions:

- closed book: the best single answer per type of question ("earlier" comparisons count the better of "the first one
  named" and "the second one named"), chosen with hindsight on the part itself, so an upper bound of guessing;
- one search: every gold passage is among the best 3 (5) for the question's own words;
- two searches: the first gold title, then the second one, finds every gold passage among the best 1 (3).

Run: ``python benchmarks/bench_world_shortcuts.py`` (needs no extra; some seconds).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from agent_envs.data.mini_hotpot import mini_parts, mini_split
from agent_envs.data.records import Passage, Question
from agent_envs.retrieval import Bm25Retriever, corpus_of

Search = Callable[[Sequence[str], int], list[list[Passage]]]


def make_search(questions: Sequence[Question]) -> Search:
    """BM25 over the union of the questions' passages, as the environment's search tool does it."""
    retriever = Bm25Retriever(corpus_of(questions))

    def search(queries: Sequence[str], top_k: int) -> list[list[Passage]]:
        return [[hit.passage for hit in hits] for hits in retriever.search(queries, top_k)]

    return search


def closed_book(questions: Sequence[Question]) -> float:
    """The share that the best fixed answer per type of question gets right."""
    right = 0
    for group in ("bridge", "yes or no", "earlier"):
        answers = Counter(_guessable_answer(question) for question in questions if _group(question) == group)
        right += max(answers.values(), default=0)
    return right / len(questions)


def _group(question: Question) -> str:
    if question.kind == "bridge":
        return "bridge"
    return "yes or no" if question.answers[0] in ("yes", "no") else "earlier"


def _guessable_answer(question: Question) -> str:
    if _group(question) == "earlier":
        return f"name {question.gold_titles.index(question.answers[0])}"
    return question.answers[0]


def one_search(questions: Sequence[Question], search: Search, top_k: int) -> float:
    """The share whose gold passages all come up for the words of the question."""
    found = search([question.question for question in questions], top_k)
    return _share_complete(questions, found)


def two_searches(questions: Sequence[Question], search: Search, top_k: int) -> float:
    """The share whose gold passages all come up for the two gold titles, one search each."""
    first = search([question.gold_titles[0] for question in questions], top_k)
    second = search([question.gold_titles[1] for question in questions], top_k)
    return _share_complete(questions, [one + two for one, two in zip(first, second, strict=True)])


def _share_complete(questions: Sequence[Question], found: Sequence[Sequence[Passage]]) -> float:
    complete = [
        set(question.gold_titles) <= {passage.title for passage in passages}
        for question, passages in zip(questions, found, strict=True)
    ]
    return sum(complete) / len(questions)


def main() -> None:
    """Prints the table."""
    columns = ("closed book", "one, top 3", "one, top 5", "bridge only", "two, top 1", "two, top 3")
    print(f"{'part':12}{'questions':>10}{'passages':>10}" + "".join(f"{column:>13}" for column in columns))
    for part in mini_parts():
        questions = mini_split(part)
        bridges = [question for question in questions if question.kind == "bridge"]
        search = make_search(questions)
        shares = (
            closed_book(questions),
            one_search(questions, search, 3),
            one_search(questions, search, 5),
            one_search(bridges, search, 5),
            two_searches(questions, search, 1),
            two_searches(questions, search, 3),
        )
        passages = {passage for question in questions for passage in question.passages}
        row = "".join(f"{share:13.3f}" for share in shares)
        print(f"{part:12}{len(questions):10d}{len(passages):10d}{row}")


if __name__ == "__main__":
    main()
