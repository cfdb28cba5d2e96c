"""The parts that every task has, on numbers worked out by hand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from agent_envs.errors import ConfigError
from agent_envs.rewards import COMMON_PARTS, common_metrics, end_part, end_parts, turn_parts
from agent_envs.rewards.parts import PartValue
from agent_envs.types import StopReason
from tests.agent_envs.rewards.outcomes import Said, outcome_of

PARTS = {part.name: part for part in COMMON_PARTS}

SEARCHES = [Said(found=[("A",), ("B",)], tokens=20), Said(malformed=2, tokens=7), Said(tokens=3)]
WELL = [*SEARCHES, Said(answer="x", tokens=5)]
BADLY = [Said(answer="x", well_formed=False)]
CLEAN = [Said(found=[()]), Said(answer="x")]


@pytest.mark.parametrize(
    ("name", "said", "value"),
    [
        ("answered", WELL, 1.0),
        ("answered", BADLY, 1.0),
        ("answered", SEARCHES, 0.0),
        ("answer_format", WELL, 1.0),
        ("answer_format", BADLY, 0.0),
        ("answer_format", SEARCHES, 0.0),
        ("tool_format", WELL, 0.0),
        ("tool_format", BADLY, 1.0),
        ("tool_format", CLEAN, 1.0),
        ("format", WELL, 0.5),
        ("format", BADLY, 0.5),
        ("format", CLEAN, 1.0),
        ("format", SEARCHES, 0.0),
        ("turns", WELL, 4.0),
        ("tool_calls", WELL, 2.0),
        ("malformed_calls", WELL, 2.0),
        ("no_action_turns", WELL, 1.0),
        ("length", WELL, 35.0),
    ],
)
def test_each_part_reads_what_it_says(name: str, said: Sequence[Said], value: float) -> None:
    assert PARTS[name].bind({})(outcome_of(said, StopReason.ANSWERED)) == value


@pytest.mark.parametrize(("free", "value"), [(0, 2.0), (1, 1.0), (2, 0.0), (9, 0.0)])
def test_the_first_calls_can_be_free(free: int, value: float) -> None:
    assert PARTS["tool_calls"].bind({"free": free})(outcome_of(WELL, None)) == value


@pytest.mark.parametrize(("limit", "value"), [(0, 35.0), (34, 1.0), (35, 0.0), (1000, 0.0)])
def test_length_counts_the_policys_tokens_beyond_the_limit(limit: int, value: float) -> None:
    assert PARTS["length"].bind({"limit": limit})(outcome_of(WELL, None)) == value


def test_parts_paid_per_turn_read_an_episode_that_has_not_begun() -> None:
    assert [part.bind({})(outcome_of([], None)) for part in COMMON_PARTS if part.when == "turn"] == [0.0] * 5


@pytest.mark.parametrize(
    ("name", "parameters", "message"),
    [
        ("tool_calls", {"fee": 1}, "no parameter 'fee'; it takes free"),
        ("format", {"free": 1}, "no parameter 'free'; it takes no parameters"),
        ("tool_calls", {"free": 1.5}, "takes int, not 1.5"),
        ("tool_calls", {"free": "1"}, "takes int, not '1'"),
        ("tool_calls", {"free": -1}, ">= 0, not -1"),
        ("length", {"limit": -1}, ">= 0, not -1"),
    ],
)
def test_wrong_parameters_are_refused_in_words(name: str, parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        PARTS[name].bind(parameters)


def test_a_parameter_without_a_default_must_be_given_and_a_float_may_be_written_whole() -> None:
    def above(level: float) -> PartValue[Any]:
        """1 where the first turn's start lies above a level."""
        return lambda outcome: float(outcome.turns[0].stop > level)

    part = end_parts(above)
    assert part.bind({"level": 3})(outcome_of(CLEAN, None)) == 1.0
    with pytest.raises(ConfigError, match="above needs its parameter 'level': 1 where the first turn"):
        part.bind({})


def test_a_part_is_called_and_described_as_its_function_is() -> None:
    def bonus(outcome: object) -> float:
        """A bonus,
        always 1.

        More on it.
        """
        return 1.0

    part = end_part(bonus)
    assert (part.name, part.summary, part.when) == ("bonus", "A bonus, always 1.", "end")
    assert turn_parts(bonus).when == "turn"
    assert all(part.summary.endswith(".") for part in COMMON_PARTS)


def test_common_metrics_are_the_parts_of_the_whole_episode() -> None:
    assert common_metrics(outcome_of(WELL, StopReason.ANSWERED)) == {
        "reward": 0.0,
        "format": 0.5,
        "answered": 1.0,
        "turns": 4.0,
        "tool_calls": 2.0,
        "malformed_calls": 2.0,
        "no_action_turns": 1.0,
    }
