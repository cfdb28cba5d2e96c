"""The embedded word problems: identical everywhere, three parts apart, sensible, and right by their own work."""

from __future__ import annotations

import hashlib
import json
import re
import time
from fractions import Fraction

import pytest

from agent_envs.data.gsm8k import worked_steps
from agent_envs.data.mini_gsm8k import mini_gsm8k, mini_gsm8k_parts, mini_gsm8k_rows
from agent_envs.data.names import Dice, Namer
from agent_envs.data.story import Story, UnfitStoryError, numbers_of
from agent_envs.data.story_kinds import EVERYWHERE, TEST_ONLY, VALIDATION_ONLY
from agent_envs.errors import ConfigError
from agent_envs.numbers import numeric_match
from agent_envs.tools.calculator import evaluate

PINNED = {
    "train": "d94f8b35c7b16a664626829775080378d149f5f03db580f8af2c75f4e755afd3",
    "validation": "49c4d1564ba30699ea7093c1b00db3bbdd554c19297b2f3b5f79725f5c7203bd",
    "test": "1525349806f61b3c19938bb4de18c38a31d9aac47491d4ce12eaa59e4a09d6a1",
}


@pytest.mark.parametrize("part", mini_gsm8k_parts())
def test_part_is_the_same_everywhere(part: str) -> None:
    serialised = json.dumps(mini_gsm8k_rows(part), ensure_ascii=False, separators=(",", ":"))
    assert hashlib.sha256(serialised.encode()).hexdigest() == PINNED[part]


def test_sizes_are_those_promised_and_building_is_quick() -> None:
    start = time.process_time()
    assert {part: len(mini_gsm8k(part)) for part in mini_gsm8k_parts()} == {
        "train": 1600,
        "validation": 600,
        "test": 600,
    }
    assert time.process_time() - start < 5.0


def test_no_problem_comes_twice_in_any_part() -> None:
    problems = [problem for part in mini_gsm8k_parts() for problem in mini_gsm8k(part)]
    assert len({problem.question for problem in problems}) == len(problems)
    told = [(re.sub(r"[A-Z][a-z]+|\d+(\.\d+)?", "", p.question), numbers_of(p.question)) for p in problems]
    assert len(set(told)) == len(problems)
    assert problems[0].task_id == "mini/train/0"


def test_some_stories_are_told_in_validation_or_test_only() -> None:
    def share(part: str, words: str) -> float:
        return sum(words in problem.question for problem in mini_gsm8k(part)) / len(mini_gsm8k(part))

    for words, own in (("tank holds", "validation"), ("concert", "test")):
        assert {part: share(part, words) > 0 for part in mini_gsm8k_parts()} == {
            part: part == own for part in mini_gsm8k_parts()
        }
    assert len(EVERYWHERE) == len({tale.__name__ for tale in EVERYWHERE}) == 16
    assert len(VALIDATION_ONLY) == len(TEST_ONLY) == 2


@pytest.mark.parametrize("part", mini_gsm8k_parts())
def test_the_work_leads_to_the_answer_through_sensible_amounts(part: str) -> None:
    for row, problem in zip(mini_gsm8k_rows(part), mini_gsm8k(part), strict=True):
        steps = worked_steps(problem.solution)
        assert 2 <= len(steps) <= 5
        for expression, value in steps:
            assert evaluate(expression) == Fraction(value) > 0
            assert (100 * Fraction(value)).denominator == 1
        assert problem.solution.count("<<") == len(problem.solution.splitlines()) == len(steps)
        assert steps[-1][1] == problem.answer
        assert row["answer"].endswith(f"\n#### {problem.answer}")
        assert numeric_match(problem.answer, problem.answer) == 1.0


@pytest.mark.parametrize("part", mini_gsm8k_parts())
def test_the_question_neither_holds_the_answer_nor_lacks_a_number_of_the_work(part: str) -> None:
    common = {Fraction(number) for number in ("1", "1.5", "2", "7", "12", "60", "100", "1000")}
    for problem in mini_gsm8k(part):
        asked = {Fraction(number) for number in numbers_of(problem.question)}
        assert Fraction(problem.answer) not in asked
        known = asked | common
        for expression, value in worked_steps(problem.solution):
            assert {Fraction(number) for number in numbers_of(expression)} <= known, problem
            known.add(Fraction(value))


def test_many_questions_hold_a_number_that_no_step_needs() -> None:
    def distracts(index: int) -> bool:
        problem = mini_gsm8k("train")[index]
        used = {number for expression, _ in worked_steps(problem.solution) for number in numbers_of(expression)}
        return not set(numbers_of(problem.question)) <= used

    assert sum(distracts(index) for index in range(1600)) > 800


def test_a_step_that_makes_no_sense_gives_the_story_up() -> None:
    story = Story(Dice("a"), Namer(Dice("a")))
    assert story.step("That is {} m.", "2*3") == "6"
    assert story.lines == ["That is 2*3 = <<2*3=6>>6 m."]
    for expression in ("3-3", "2-5", "1/3", "1/1000"):
        with pytest.raises(UnfitStoryError):
            story.step("{}", expression)
    with pytest.raises(UnfitStoryError, match="holds the answer"):
        story.finish("What is 6.0 m?")


def test_unknown_part_names_the_known_ones() -> None:
    with pytest.raises(ConfigError, match="train, validation, test"):
        mini_gsm8k("dev")
