"""The embedded HotpotQA: identical everywhere, three worlds apart, and every question answerable in two hops only."""

from __future__ import annotations

import hashlib
import json
import time

import pytest

from agent_envs.data.mini_hotpot import MINI_HOTPOT, generate_drafts, generate_world, mini_names, mini_split
from agent_envs.data.mini_world import Kind, build_world
from agent_envs.data.names import Dice, Namer
from agent_envs.data.records import Question
from agent_envs.errors import ConfigError

PINNED = {
    "train": "45e6dafc160ef8348a03ee8bb85a2806e1da1bfad6c0f2ed0f7c9da5c4e77fb0",
    "validation": "9a72e27dd330518609607e7aa68d49a57976db9d776895927860678c8816cb88",
    "test": "4b52bf609cc277ee79c7de7c2065e3ff59fbd9df0557fdf249b6d17a0dbf32ae",
}


def every_question() -> list[Question]:
    return [question for part in MINI_HOTPOT.parts for question in mini_split(part)]


@pytest.mark.parametrize("part", MINI_HOTPOT.parts)
def test_part_is_the_same_everywhere(part: str) -> None:
    serialised = json.dumps(MINI_HOTPOT.rows(part), ensure_ascii=False, separators=(",", ":"))
    assert hashlib.sha256(serialised.encode()).hexdigest() == PINNED[part]


def test_sizes_are_those_promised() -> None:
    sizes = {part: len(mini_split(part)) for part in MINI_HOTPOT.parts}
    assert sizes == {"train": 1600, "validation": 600, "test": 600}
    for part in MINI_HOTPOT.parts:
        corpus = {passage for question in mini_split(part) for passage in question.passages}
        assert len(corpus) == 700
        assert len({passage.title for passage in corpus}) == 700


def test_building_is_quick() -> None:
    start = time.process_time()
    for part in MINI_HOTPOT.parts:
        MINI_HOTPOT.rows(part)
    assert time.process_time() - start < 2.0


def test_no_name_is_in_two_parts() -> None:
    names = [MINI_HOTPOT.world(part).names() for part in MINI_HOTPOT.parts]
    assert len(mini_names()) == sum(len(each) for each in names)


def test_task_ids_and_questions_are_unique() -> None:
    questions = every_question()
    assert len({question.task_id for question in questions}) == len(questions)
    assert len({question.question for question in questions}) == len(questions)


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


def test_question_words_are_not_those_of_the_answering_passage() -> None:
    """Apart from function words and the first entity's name, which a couple's passages share."""
    generic = _words("the of is who what in to a by on and that from come comes one his her whoever was has its it")
    for question in (question for question in mini_split("train") if question.kind == "bridge"):
        texts = {passage.title: passage.text for passage in question.passages}
        first, second = question.gold_titles
        asked = _words(question.question.replace(first, "")) - generic
        assert not asked & _words(texts[second]), (question.question, texts[second])


def _words(text: str) -> set[str]:
    return {word.strip(".,?").lower() for word in text.split()}


def test_passages_are_short() -> None:
    lengths = [len(passage.text.split()) for part in MINI_HOTPOT.parts for passage in mini_split(part)[0].passages]
    assert max(lengths) <= 32


def test_rows_serialise_to_json_and_back() -> None:
    row = MINI_HOTPOT.rows("validation")[0]
    assert json.loads(json.dumps(row)) == row
    assert set(row) == {"_id", "question", "answer", "type", "level", "supporting_facts", "context"}


def test_generated_world_depends_on_its_seed_only_and_keeps_clear_of_excluded_names() -> None:
    world = generate_world("a", 40, exclude=mini_names())
    assert world == generate_world("a", 40, exclude=mini_names())
    assert world != generate_world("b", 40, exclude=mini_names())
    titles = {passage.title for question in world for passage in question.passages}
    assert titles.isdisjoint(mini_names())


def test_drafts_are_the_facts_behind_the_questions() -> None:
    questions = generate_world("a", 40, num_passages=100)
    world, drafts = generate_drafts("a", 40, num_passages=100)
    assert [draft.text for draft in drafts] == [question.question for question in questions]
    assert [draft.answer for draft in drafts] == [question.answers[0] for question in questions]
    for draft in (draft for draft in drafts if draft.kind == "bridge"):
        assert draft.gold[0].facts[draft.attributes[0]] == draft.gold[1].name
        assert world.entities[draft.gold[1].name].facts[draft.attributes[1]] == draft.answer


def test_unknown_part_names_the_known_ones() -> None:
    with pytest.raises(ConfigError, match="train, validation, test"):
        MINI_HOTPOT.rows("dev")


def test_too_small_a_world_is_an_error_that_says_so() -> None:
    with pytest.raises(ConfigError, match="raise num_passages"):
        generate_world("a", 5000, num_passages=30)
    with pytest.raises(ConfigError, match="30 passages"):
        build_world(Dice("a"), 10)


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
