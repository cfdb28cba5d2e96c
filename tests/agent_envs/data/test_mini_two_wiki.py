"""The embedded 2WikiMultihopQA: its four types, and that each answer follows from the facts of the world."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from agent_envs.data.mini_two_wiki import MINI_TWO_WIKI
from agent_envs.data.mini_world import Entity, Kind
from agent_envs.data.records import Question

RELATIVES = {
    "paternal grandfather": ("father", "father"),
    "paternal grandmother": ("father", "mother"),
    "maternal grandfather": ("mother", "father"),
    "maternal grandmother": ("mother", "mother"),
    "father-in-law": ("spouse", "father"),
    "mother-in-law": ("spouse", "mother"),
}
EXTREMES = {"older": min, "earlier": min, "first": min, "younger": max, "later": max}


def of_kind(kind: str) -> list[tuple[Question, dict[str, Entity]]]:
    return [
        (question, dict(MINI_TWO_WIKI.world(part).entities))
        for part in MINI_TWO_WIKI.parts
        for question in MINI_TWO_WIKI.split(part)
        if question.kind == kind
    ]


def test_types_have_the_shares_of_the_official_set() -> None:
    train = MINI_TWO_WIKI.split("train")
    shares = {kind: count / len(train) for kind, count in Counter(question.kind for question in train).items()}
    assert shares == pytest.approx(
        {"compositional": 0.42, "comparison": 0.24, "bridge_comparison": 0.22, "inference": 0.12}, abs=0.03
    )


def test_rows_have_the_official_fields() -> None:
    row = MINI_TWO_WIKI.rows("test")[0]
    assert list(row) == [
        *("_id", "question", "answer", "type", "supporting_facts", "context", "evidences", "answer_id")
    ]
    assert len(row["context"]) == 10


def sentence(row: dict[str, Any], fact: list[Any]) -> str:
    return dict(row["context"])[fact[0]][fact[1]]


def test_each_triple_is_a_supporting_fact_in_its_sentence() -> None:
    for row in (row for part in MINI_TWO_WIKI.parts for row in MINI_TWO_WIKI.rows(part)):
        assert len(row["evidences"]) == len(row["supporting_facts"]) == (4 if row["type"] == "bridge_comparison" else 2)
        for (subject, _, value), fact in zip(row["evidences"], row["supporting_facts"], strict=True):
            assert fact[0] == subject
            assert value in sentence(row, fact)


def test_chains_go_through_the_first_passage_to_the_second() -> None:
    for kind in ("compositional", "inference"):
        for question, entities in of_kind(kind):
            (first, link, middle), (subject, asked, answer) = question.evidences
            assert entities[first].facts[link] == middle == subject
            assert entities[middle].facts[asked] == answer == question.answers[0]
            assert first in question.question and middle not in question.question


def test_inferences_are_relations_that_no_passage_names() -> None:
    for question, entities in of_kind("inference"):
        (relation,) = [name for name in RELATIVES if f" {name} of " in question.question]
        assert tuple(link for _, link, _ in question.evidences) == RELATIVES[relation]
        told = " ".join(entity.passage.text for entity in entities.values())
        assert relation not in told
    for question, _ in of_kind("compositional"):
        assert tuple(link for _, link, _ in question.evidences) not in RELATIVES.values()


def compared(question: Question) -> list[tuple[str, str]]:
    """The two that the question names, each with the value that counts."""
    first, second = (subject for subject, _, _ in question.evidences[:2])
    return list(zip((first, second), (value for _, _, value in question.evidences[-2:]), strict=True))


def test_comparisons_follow_from_the_facts() -> None:
    for kind in ("comparison", "bridge_comparison"):
        for question, entities in of_kind(kind):
            assert all(entities[subject].facts[link] == value for subject, link, value in question.evidences)
            pair = compared(question)
            assert all(name in question.question for name, _ in pair)
            if question.answers[0] in ("yes", "no"):
                assert (pair[0][1] == pair[1][1]) is (question.answers[0] == "yes")
                continue
            (extreme,) = {EXTREMES[word] for word in EXTREMES if f" {word}" in question.question}
            assert extreme(pair, key=lambda named: int(named[1]))[0] == question.answers[0]
            assert abs(int(pair[0][1]) - int(pair[1][1])) >= 3


def test_bridge_comparisons_name_works_and_compare_their_makers() -> None:
    for question, entities in of_kind("bridge_comparison"):
        works, makers = question.gold_titles[:2], question.gold_titles[2:]
        assert len(set(makers)) == 2
        assert all(entities[maker].kind is Kind.PERSON for maker in makers)
        assert all(maker not in question.question for maker in makers)
        for work, maker in zip(works, makers, strict=True):
            assert maker in entities[work].facts.values()


@pytest.mark.parametrize("kind", ["comparison", "bridge_comparison"])
def test_answers_of_comparisons_are_balanced(kind: str) -> None:
    for part in MINI_TWO_WIKI.parts:
        answers: Counter[str] = Counter()
        for question in (question for question in MINI_TWO_WIKI.split(part) if question.kind == kind):
            answer = question.answers[0]
            answers[answer if answer in ("yes", "no") else str(question.gold_titles.index(answer))] += 1
        assert 0.4 < answers["yes"] / (answers["yes"] + answers["no"]) < 0.6
        assert 0.4 < answers["0"] / (answers["0"] + answers["1"]) < 0.6


def test_families_are_possible() -> None:
    """Parents were adults, a couple has no parents in common, and makers were alive when their works came out."""
    for part in MINI_TWO_WIKI.parts:
        world = MINI_TWO_WIKI.world(part)
        people = {entity.name: entity.facts for entity in world.of_kind(Kind.PERSON)}
        for name, facts in people.items():
            born, died = int(facts["birth year"]), int(facts["death year"])
            assert 37 <= died - born <= 106
            for parent in (facts.get("father"), facts.get("mother")):
                assert parent is None or 18 <= born - int(people[parent]["birth year"]) <= 40
            if "spouse" in facts:
                spouse = people[facts["spouse"]]
                assert "spouse" not in spouse
                assert facts.get("father", name) != spouse.get("father")
        for work in world.of_kind(Kind.FILM, Kind.BOOK, Kind.COMPANY):
            maker = people[next(work.facts[role] for role in ("director", "author", "founder") if role in work.facts)]
            assert int(maker["birth year"]) + 18 <= int(work.facts["year"]) <= int(maker["death year"])


def test_passages_are_short() -> None:
    lengths = [len(passage.text.split()) for question in MINI_TWO_WIKI.split("train") for passage in question.passages]
    assert max(lengths) <= 45
