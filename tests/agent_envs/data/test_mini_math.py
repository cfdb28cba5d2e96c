"""The embedded mathematics: identical everywhere, three parts apart, and every program finds the answer."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import io
import json
import re
import time

import pytest

from agent_envs.data.math_kinds import EVERYWHERE, TEST_ONLY, VALIDATION_ONLY, Kind
from agent_envs.data.mini_math import mini_math, mini_math_parts
from agent_envs.data.names import Dice
from agent_envs.errors import ConfigError
from agent_envs.math_grading import equivalent

PINNED = {
    "train": "6719f16bc49e18956ff14b5dff436cad5f82be2346121cebf612dda2c81c6b0c",
    "validation": "4ed9cfa80cf1dc1465901d3bb3c64fa28ecf063ff7ed96d43a13e427b2ab5c52",
    "test": "f0299b433705b98fc54bf04c0c39d21c3b380a1439995a2fee52828a86002d3b",
}


def printed(program: str) -> str:
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        exec(program, {})
    return output.getvalue().strip()


@pytest.mark.parametrize("part", mini_math_parts())
def test_part_is_the_same_everywhere(part: str) -> None:
    rows = [dataclasses.asdict(problem) for problem in mini_math(part)]
    serialised = json.dumps(rows, ensure_ascii=False, separators=(",", ":"))
    assert hashlib.sha256(serialised.encode()).hexdigest() == PINNED[part]


def test_sizes_are_those_promised_and_no_question_comes_twice() -> None:
    start = time.process_time()
    parts = {part: mini_math(part) for part in mini_math_parts()}
    assert time.process_time() - start < 3.0
    assert {part: len(problems) for part, problems in parts.items()} == {"train": 1600, "validation": 600, "test": 600}
    problems = [problem for part in parts.values() for problem in part]
    assert len({problem.question for problem in problems}) == len({problem.task_id for problem in problems}) == 2800


def test_some_kinds_come_in_validation_or_test_only() -> None:
    kinds = {part: {problem.kind for problem in mini_math(part)} for part in mini_math_parts()}
    everywhere = {kind.__name__ for kind in EVERYWHERE}
    assert kinds["train"] == everywhere
    assert kinds["validation"] - everywhere == {kind.__name__ for kind in VALIDATION_ONLY}
    assert kinds["test"] - everywhere == {kind.__name__ for kind in TEST_ONLY}


@pytest.mark.parametrize("kind", [*EVERYWHERE, *VALIDATION_ONLY, *TEST_ONLY], ids=lambda kind: kind.__name__)
def test_what_the_program_prints_is_graded_right(kind: Kind) -> None:
    dice = Dice("programs", kind.__name__)
    for _ in range(6):
        draft = kind(dice)
        output = printed(draft.program)
        assert equivalent(output, draft.answer), (draft, output)
        assert not equivalent(f"{output} + 1", draft.answer)


@pytest.mark.slow
@pytest.mark.parametrize("part", mini_math_parts())
def test_every_program_finds_the_answer(part: str) -> None:
    for problem in mini_math(part):
        assert equivalent(printed(problem.program), problem.answer), problem


def test_the_question_does_not_hold_the_answer() -> None:
    for part in mini_math_parts():
        for problem in mini_math(part):
            assert problem.answer not in re.findall(r"\d+", problem.question)
            assert problem.answer not in ("0", "1")


def test_unknown_part_names_the_known_ones() -> None:
    with pytest.raises(ConfigError, match="train, validation, test"):
        mini_math("dev")
