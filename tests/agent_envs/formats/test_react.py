"""The ReAct format."""

from __future__ import annotations

import pytest

from agent_envs.formats import FORMATS, ParsedTurn
from agent_envs.types import EventKind, Message, ToolCall

REACT = FORMATS.get("react")
CALL = 'Action: search\nAction Input: {"query": "x"}'
SEARCH = ToolCall("search", {"query": "x"})


@pytest.mark.parametrize(
    "text",
    [
        CALL,
        f"Thought: I need x.\n{CALL}\nObservation:",
        f" I need x. Action: none.\n{CALL}\n\nObservation: and more",
        f"<think>Action: a\nAction Input: {{}}</think>{CALL}",
        '  Action : search\n  Action Input : {\n  "query": "x"\n}\n',
    ],
)
def test_an_action_and_its_input_are_a_call(text: str) -> None:
    assert REACT.parse(text) == ParsedTurn((SEARCH,), None, False)


def test_several_actions_may_stand_before_one_observation() -> None:
    text = f"Thought: both.\n{CALL}\nAction: b\nAction Input: {{}}\nObservation:"
    assert REACT.parse(text).calls == (SEARCH, ToolCall("b"))
    assert REACT.write_calls([SEARCH, ToolCall("b")]) == f"\n{CALL}\nAction: b\nAction Input: {{}}\nObservation:"


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("Action: search", "the action 'search' has no Action Input"),
        ("Action: search\nThought: hm\nFinal Answer: x", "the action 'search' has no Action Input"),
        ('Action Input: {"query": "x"}', "stands behind no Action"),
        ("Action:\nAction Input: {}", "behind Action stands no tool's name alone"),
        ("Action: search\nfor it\nAction Input: {}", "behind Action stands no tool's name alone"),
        ("Action: search\nAction Input: x", "the arguments of 'search' are not valid JSON"),
        ("Action: search\nAction Input:", "the arguments of 'search' are not valid JSON"),
        ('Action: search\nAction Input: ["x"]', "the arguments of 'search' are a JSON list"),
    ],
)
def test_a_malformed_call_says_what_is_wrong(text: str, complaint: str) -> None:
    (call,) = REACT.parse(text).calls
    assert call.kind is EventKind.MALFORMED_CALL
    assert complaint in str(call.error)
    assert str(call.error).endswith('Action: tool name\nAction Input: {"argument": "value"}')


def test_two_actions_in_a_row_are_one_mistake_and_one_call() -> None:
    calls = REACT.parse(f"Action: a\n{CALL}").calls
    assert [(call.name, call.kind) for call in calls] == [("", EventKind.MALFORMED_CALL), ("search", EventKind.CALL)]


@pytest.mark.parametrize(
    ("text", "answer", "well_formed"),
    [
        ("Thought: I know.\nFinal Answer: Paris ", "Paris", True),
        ("Final Answer: Paris\nand Rome", "Paris\nand Rome", True),
        ("Final Answer: Paris\nThought: or Rome?", "Paris", True),
        ("Final Answer: Rome\nFinal Answer: Paris", "Paris", False),
        ("Final Answer:", "", False),
        ("The Final Answer: Paris", None, False),
        ("<think>\nFinal Answer: Paris", None, False),
        ("Thought: x\nObservation: found\nFinal Answer: Paris", None, False),
    ],
)
def test_answers(text: str, answer: str | None, well_formed: bool) -> None:
    assert REACT.parse(text) == ParsedTurn((), answer, well_formed)


@pytest.mark.parametrize(
    "observation", ["Thought: x\nObservation:", "Observation:", "  Observation :", "\r\nObservation:"]
)
def test_nothing_behind_an_observation_of_its_own_is_acted_on(observation: str) -> None:
    assert REACT.parse(f"{observation} made up\n{CALL}\nFinal Answer: 4") == ParsedTurn((), None, False)
    assert REACT.parse(f"{CALL}\n{observation} made up\nFinal Answer: 4") == ParsedTurn((SEARCH,), None, False)


def test_an_observation_ends_the_turn_unless_it_is_thought() -> None:
    assert REACT.closes_turn(f"{CALL}\nObservation:")
    assert not REACT.closes_turn(f"<think>{CALL}\nObservation:")
    assert not REACT.closes_turn("Thought: an Observation:")


def test_results_stand_behind_the_observation_and_the_next_thought_is_begun() -> None:
    messages = [Message("tool", "", name="search"), Message("tool", ""), Message("user", "")]
    assert REACT.continuation(messages) == [" ", "\n", "\n", "\nThought:"]
    assert REACT.wrap_result("found") == "Observation: found"
