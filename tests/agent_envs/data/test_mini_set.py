"""What holds for every embedded set: identical everywhere, three worlds apart, and nothing given away for free."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

import agent_envs
from agent_envs.data.mini_drafts import Draft, Draw, draft_questions
from agent_envs.data.mini_hotpot import MINI_HOTPOT
from agent_envs.data.mini_musique import MINI_MUSIQUE
from agent_envs.data.mini_set import MiniSet
from agent_envs.data.mini_two_wiki import MINI_TWO_WIKI
from agent_envs.data.names import Dice
from agent_envs.errors import ConfigError
from agent_envs.retrieval import Bm25Retriever, corpus_of

SETS = {"hotpot": MINI_HOTPOT, "two_wiki": MINI_TWO_WIKI, "musique": MINI_MUSIQUE}
PARAGRAPHS = {"hotpot": 10, "two_wiki": 10, "musique": 20}
ONE_SEARCH_AT_MOST = {"hotpot": 0.3, "two_wiki": 0.3, "musique": 0.02}
PINNED = {
    "hotpot": {
        "train": "45e6dafc160ef8348a03ee8bb85a2806e1da1bfad6c0f2ed0f7c9da5c4e77fb0",
        "validation": "9a72e27dd330518609607e7aa68d49a57976db9d776895927860678c8816cb88",
        "test": "4b52bf609cc277ee79c7de7c2065e3ff59fbd9df0557fdf249b6d17a0dbf32ae",
    },
    "two_wiki": {
        "train": "528cac948ac25a6c9d66cbc08cbe790f27cd2d9ddd33cca10634b742841ca045",
        "validation": "65037fd7789c3675fe60468f8ebe253cc75ff08ada1666628be18ae170f2cb16",
        "test": "32b6ee7995a4162b117ac8a6628e1c55889f009b54e290c4d28394e2e5888cad",
    },
    "musique": {
        "train": "0f33c5dd0d083cdac420f41695d00770f2f89efa3a853416b9566515b4d2a2e8",
        "validation": "53bf0ad629e146a8ae79d40f2f9730f3ab94eaafe626192ebe3e813b8efd2716",
        "test": "426c49e4f577efdd3c7755a48f8aad2918f6dc3ff5ff7ec4a7cf74d3598ad867",
    },
}
FUNCTION = "the of is who what in to a by on and that from come comes one his her whoever was has its it or with under"


@pytest.fixture(params=SETS)
def name(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def mini(name: str) -> MiniSet:
    return SETS[name]


def digest(mini: MiniSet, part: str) -> str:
    serialised = json.dumps(mini.rows(part), ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(serialised.encode()).hexdigest()


def test_parts_are_the_same_everywhere(name: str, mini: MiniSet) -> None:
    assert {part: digest(mini, part) for part in mini.parts} == PINNED[name]


def test_no_hash_seed_changes_a_world() -> None:
    code = (
        "from tests.agent_envs.data.test_mini_set import SETS\n"
        "print([mini.generate('hash', 50, num_passages=100) for mini in SETS.values()])"
    )
    environment = {"PYTHONHASHSEED": "7", "PATH": "", "PYTHONPATH": str(Path(agent_envs.__file__).parent.parent)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    assert done.stdout.strip() == str([mini.generate("hash", 50, num_passages=100) for mini in SETS.values()])


def test_sizes_are_those_promised(name: str, mini: MiniSet) -> None:
    assert {part: len(mini.split(part)) for part in mini.parts} == {"train": 1600, "validation": 600, "test": 600}
    for part in mini.parts:
        corpus = corpus_of(mini.split(part))
        assert len(corpus) == len({passage.title for passage in corpus}) == 700
        assert {len(question.passages) for question in mini.split(part)} == {PARAGRAPHS[name]}


def test_building_is_quick(mini: MiniSet) -> None:
    start = time.process_time()
    mini.rows("train")
    assert time.process_time() - start < 2.0


def test_no_name_is_in_two_parts(mini: MiniSet) -> None:
    assert len(mini.names()) == sum(len(mini.world(part).names()) for part in mini.parts)


def test_task_ids_and_questions_are_unique(mini: MiniSet) -> None:
    questions = [question for part in mini.parts for question in mini.split(part)]
    assert len({question.task_id for question in questions}) == len(questions)
    assert len({question.question for question in questions}) == len(questions)


def test_gold_passages_are_among_the_paragraphs_and_the_answer_is_in_the_last_one(mini: MiniSet) -> None:
    for question in (question for part in mini.parts for question in mini.split(part)):
        texts = {passage.title: passage.text for passage in question.passages}
        assert len(question.gold_titles) >= 2
        assert set(question.gold_titles) <= set(texts)
        if not question.kind.endswith("comparison"):
            assert question.answers[0] in texts[question.gold_titles[-1]]


def drafts(mini: MiniSet, count: int = 400) -> tuple[Draft, ...]:
    return mini.drafts("drafts", count)[1]


def test_no_passage_tells_what_a_later_hop_is_for(mini: MiniSet) -> None:
    for draft in drafts(mini):
        if draft.kind.endswith("comparison"):
            continue
        for number, step in enumerate(draft.steps):
            assert step.value in step.entity.passage.text
            assert step.value not in draft.text, draft.text
            for before in draft.steps[:number]:
                assert step.value not in before.entity.passage.text, draft.text


def words(text: str) -> set[str]:
    return {word.strip(".,?").lower() for word in text.split()}


def test_the_words_of_a_question_are_not_those_of_the_passages_behind_it(mini: MiniSet) -> None:
    """Apart from function words, names, and the passages of what the question names, which it may well find."""
    for draft in drafts(mini):
        named = words(" ".join(entity.name for entity in draft.gold if entity.name in draft.text))
        asked = words(draft.text) - named - words(FUNCTION)
        for entity in (entity for entity in draft.gold if entity.name not in draft.text):
            assert not asked & words(entity.passage.text), (draft.text, entity.passage.text)


def test_one_search_for_the_question_is_not_enough_and_one_for_each_title_is(name: str, mini: MiniSet) -> None:
    questions = mini.split("test")
    retriever = Bm25Retriever(corpus_of(questions))
    at_once = 0
    for question in questions:
        found = {hit.passage.title for hit in retriever.search([question.question], 5)[0]}
        at_once += set(question.gold_titles) <= found
        assert [hits[0].passage.title for hits in retriever.search(question.gold_titles, 1)] == [*question.gold_titles]
    assert at_once / len(questions) < ONE_SEARCH_AT_MOST[name]


def test_rows_serialise_to_json_and_back(mini: MiniSet) -> None:
    row = mini.rows("validation")[0]
    assert json.loads(json.dumps(row)) == row


def test_a_generated_world_depends_on_its_seed_only_and_keeps_clear_of_excluded_names(mini: MiniSet) -> None:
    world = mini.generate("a", 40, exclude=mini.names())
    assert world == mini.generate("a", 40, exclude=mini.names())
    assert world != mini.generate("b", 40, exclude=mini.names())
    titles = {passage.title for question in world for passage in question.passages}
    assert titles.isdisjoint(mini.names())


def test_drafts_are_the_facts_behind_the_questions(mini: MiniSet) -> None:
    questions = mini.generate("a", 40, num_passages=100)
    world, made = mini.drafts("a", 40, num_passages=100)
    assert [draft.text for draft in made] == [question.question for question in questions]
    assert [draft.answer for draft in made] == [question.answers[0] for question in questions]
    for draft, question in zip(made, questions, strict=True):
        assert tuple(entity.name for entity in draft.gold) == question.gold_titles
        assert all(world.entities[entity.name] is entity for entity in draft.gold)


def test_a_small_world_has_every_kind_of_question(mini: MiniSet) -> None:
    kinds = {question.kind for seed in range(6) for question in mini.generate(f"small {seed}", 25, num_passages=60)}
    assert kinds == {question.kind for question in mini.split("train")}


def test_an_unknown_part_names_the_known_ones(mini: MiniSet) -> None:
    with pytest.raises(ConfigError, match=rf"embedded {mini.name} has the parts train, validation, test; got 'dev'"):
        mini.rows("dev")
    with pytest.raises(ConfigError, match="train, validation, test"):
        mini.split("dev")


def test_too_small_a_world_is_an_error_that_says_so(mini: MiniSet) -> None:
    with pytest.raises(ConfigError, match="30 passages or more, got num_passages=10"):
        mini.generate("a", 1, num_passages=10)


def test_a_world_that_runs_out_of_questions_is_an_error_that_says_so() -> None:
    world, (only, *_) = MINI_MUSIQUE.drafts("a", 1, num_passages=30)
    with pytest.raises(ConfigError, match=r"of 30 passages gave only 1 of 3 questions; ask for fewer, or raise num_"):
        draft_questions(Dice("a"), world, 3, lambda dice: lambda dice, world: only)


def test_a_kind_that_a_world_lacks_gives_way_to_others() -> None:
    world, made = MINI_MUSIQUE.drafts("a", 20, num_passages=100)
    left = list(made)

    def choose_draw(dice: Dice) -> Draw:
        return (lambda dice, world: None) if dice.chance(0.1) else lambda dice, world: left.pop()

    assert set(draft_questions(Dice("a"), world, 20, choose_draw)) == set(made)


def test_sets_share_no_world() -> None:
    assert MINI_TWO_WIKI.world("train").names() != MINI_MUSIQUE.world("train").names()
