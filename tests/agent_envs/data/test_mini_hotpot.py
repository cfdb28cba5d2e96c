"""The embedded HotpotQA: every question answerable in two hops only. See ``test_mini_set`` for what all sets share."""

from __future__ import annotations

import json

from agent_envs.data.mini_hotpot import MINI_HOTPOT, generate_drafts, generate_world, mini_split
from agent_envs.data.mini_world import Kind
from agent_envs.data.names import Dice, Namer
from agent_envs.data.records import Question


def every_question() -> list[Question]:
    return [question for part in MINI_HOTPOT.parts for question in mini_split(part)]


def test_about_a_fifth_are_comparisons_and_yes_is_as_frequent_as_no() -> None:
    train = mini_split("train")
    answers = [question.answers[0] for question in train if question.kind == "comparison"]
    assert 0.17 < len(answers) / len(train) < 0.23
    assert 0.4 < answers.count("yes") / (answers.count("yes") + answers.count("no")) < 0.6


def test_every_question_has_two_gold_passages_among_ten() -> None:
    for question in every_question():
        titles = [passage.title for passage in question.passages]
        assert len(titles) == len(set(titles)) == 10
        assert len(question.gold_titles) == 2
        assert set(question.gold_titles) <= set(titles)


def test_bridge_answer_is_in_the_second_gold_sentence_only() -> None:
    for row in (row for part in MINI_HOTPOT.parts for row in MINI_HOTPOT.rows(part) if row["type"] == "bridge"):
        paragraphs = dict(row["context"])
        (first, first_index), (second, second_index) = row["supporting_facts"]
        assert row["answer"] not in row["question"]
        assert row["answer"] not in " ".join([first, *paragraphs[first]])
        assert row["answer"] in paragraphs[second][second_index]
        assert second in paragraphs[first][first_index]
        assert first in row["question"]
        assert second not in row["question"]


def test_comparisons_follow_from_the_facts() -> None:
    for part in MINI_HOTPOT.parts:
        entities = MINI_HOTPOT.world(part).entities
        for question in (question for question in mini_split(part) if question.kind == "comparison"):
            pair = [entities[title] for title in question.gold_titles]
            if question.answers[0] in ("yes", "no"):
                shared = set(pair[0].facts.items()) & set(pair[1].facts.items())
                assert question.answers[0] == "no" or shared
                continue
            attribute = "birth year" if pair[0].kind is Kind.PERSON else "year"
            years = [int(entity.facts[attribute]) for entity in pair]
            assert abs(years[0] - years[1]) >= 15
            assert question.answers[0] == pair[years[1] < years[0]].name


def test_passages_are_short() -> None:
    lengths = [len(passage.text.split()) for part in MINI_HOTPOT.parts for passage in mini_split(part)[0].passages]
    assert max(lengths) <= 32


def test_rows_serialise_to_json_and_back() -> None:
    row = MINI_HOTPOT.rows("validation")[0]
    assert json.loads(json.dumps(row)) == row
    assert set(row) == {"_id", "question", "answer", "type", "level", "supporting_facts", "context"}


def test_drafts_are_the_facts_behind_the_questions() -> None:
    questions = generate_world("a", 40, num_passages=100)
    world, drafts = generate_drafts("a", 40, num_passages=100)
    assert [draft.text for draft in drafts] == [question.question for question in questions]
    assert [draft.answer for draft in drafts] == [question.answers[0] for question in questions]
    for draft in (draft for draft in drafts if draft.kind == "bridge"):
        assert draft.gold[0].facts[draft.attributes[0]] == draft.gold[1].name
        assert world.entities[draft.gold[1].name].facts[draft.attributes[1]] == draft.answer


def test_dice_draw_what_they_always_drew() -> None:
    dice = Dice("pinned")
    assert [dice.below(100) for _ in range(5)] == [95, 31, 38, 73, 33]
    assert dice.shuffled(range(6)) == [5, 2, 3, 1, 4, 0]
    assert sorted(dice.shuffled(range(6))) == list(range(6))
    assert Dice("pinned").choose_weighted({"a": 0.0, "b": 1.0}) == "b"


def test_namer_never_repeats_a_name() -> None:
    namer = Namer(Dice("names"))
    rivers = [namer.river() for _ in range(400)]
    assert len(set(rivers)) == 400
    more = [Namer(Dice("names"), exclude=rivers).river() for _ in range(50)]
    assert set(more).isdisjoint(rivers)
