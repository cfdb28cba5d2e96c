"""The embedded MuSiQue: its six graphs of hops, and that the decomposition alone leads to the answer."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

import pytest

from agent_envs.data.mini_kin import SHOPS
from agent_envs.data.mini_musique import MINI_MUSIQUE
from agent_envs.data.records import Question, SubQuestion

# Which earlier hops each hop asks about.
GRAPHS: dict[str, tuple[set[int], ...]] = {
    "2hop": (set(), {1}),
    "3hop1": (set(), {1}, {2}),
    "3hop2": (set(), set(), {1, 2}),
    "4hop1": (set(), {1}, {2}, {3}),
    "4hop2": (set(), set(), {1, 2}, {3}),
    "4hop3": (set(), {1}, set(), {2, 3}),
}


def every_question() -> list[Question]:
    return [question for part in MINI_MUSIQUE.parts for question in MINI_MUSIQUE.split(part)]


def references(text: str) -> set[int]:
    return {int(number) for number in re.findall(r"#(\d)", text)}


def filled(text: str, hops: Sequence[SubQuestion]) -> str:
    """The hop's question with the earlier answers in it."""
    for number, hop in enumerate(hops, start=1):
        text = text.replace(f"#{number}", hop.answer)
    return text


def test_hops_hang_together_as_the_kind_says() -> None:
    for question in every_question():
        assert tuple(references(hop.question) for hop in question.decomposition) == GRAPHS[question.kind]
        assert question.task_id.startswith(f"{question.kind}__mini/")


def test_kinds_have_their_shares() -> None:
    train = MINI_MUSIQUE.split("train")
    shares = {kind: count / len(train) for kind, count in Counter(question.kind for question in train).items()}
    expected = {"2hop": 0.4, "3hop1": 0.2, "3hop2": 0.12, "4hop1": 0.12, "4hop2": 0.08, "4hop3": 0.08}
    assert shares == pytest.approx(expected, abs=0.03)


def test_each_hop_is_told_by_a_gold_paragraph_of_its_own_that_names_what_it_asks_about() -> None:
    for question in every_question():
        hops = question.decomposition
        passages = [hop.passage for hop in hops]
        assert tuple(passages) == question.gold_passages
        assert len(set(passages)) == len(hops)
        for hop in hops:
            assert hop.passage is not None and hop.answer in hop.passage.text
            assert hop.passage.title in filled(hop.question, hops)
        assert hops[-1].answer == question.answers[0]


def test_only_what_begins_a_line_of_hops_is_named_in_the_question() -> None:
    for question in every_question():
        for hop in question.decomposition:
            assert hop.passage is not None
            assert (hop.passage.title in question.question) is (not references(hop.question))
            assert hop.answer not in question.question


def test_where_lines_meet_the_passage_offers_other_answers_too() -> None:
    """Finding the company is not enough: each of its shops has another head, in another town."""
    for part in MINI_MUSIQUE.parts:
        entities = MINI_MUSIQUE.world(part).entities
        for question in MINI_MUSIQUE.split(part):
            for hop in (hop for hop in question.decomposition if "head of the shop" in hop.question):
                assert hop.passage is not None
                facts = entities[hop.passage.title].facts
                heads = {facts[f"shop {number}"]: facts[f"head {number}"] for number in SHOPS}
                (town,) = [other.answer for other in question.decomposition if other.answer in heads]
                assert len(heads) == len(set(heads.values())) == 3
                assert heads[town] == hop.answer


def test_rows_have_the_official_fields() -> None:
    row = MINI_MUSIQUE.rows("test")[0]
    assert list(row) == [
        *("id", "paragraphs", "question", "question_decomposition", "answer", "answer_aliases", "answerable")
    ]
    assert [paragraph["idx"] for paragraph in row["paragraphs"]] == list(range(20))
    supporting = {paragraph["idx"] for paragraph in row["paragraphs"] if paragraph["is_supporting"]}
    assert supporting == {step["paragraph_support_idx"] for step in row["question_decomposition"]}
