"""The Hermes format: what counts as a call and an answer, and that nothing raises."""

from __future__ import annotations

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_envs.formats import FORMATS
from agent_envs.types import EventKind

HERMES = FORMATS.get("hermes")
PIECES = st.sampled_from(
    [
        *HERMES.tags,
        '{"name": "a", "arguments": {}}',
        '{"name": 1}',
        '{"name": "a", "arguments": {"x": 1e999}}',
        "[]",
        "x",
        '"\\ud800"',
        "NaN",
        "\n",
        "{",
        "é",
        "[" * 2000,
    ]
)
JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3),
    max_leaves=5,
)


@given(text=st.one_of(st.text(), st.lists(PIECES, max_size=12).map("".join)))
def test_no_text_raises(text: str) -> None:
    parsed = HERMES.parse(text)
    for call in parsed.calls:
        json.dumps(dict(call.arguments), allow_nan=False).encode()
        assert (call.error is None) == (call.kind is EventKind.CALL)
    assert not parsed.answer_well_formed or parsed.answer


@given(name=st.text(min_size=1, max_size=8), arguments=st.dictionaries(st.text(max_size=5), JSON_VALUES, max_size=3))
def test_a_written_call_is_read_back(name: str, arguments: dict[str, object]) -> None:
    text = HERMES.write_call(name, arguments)
    if any(tag in text[len("<tool_call>") : -len("</tool_call>")] for tag in HERMES.tags):
        return
    (call,) = HERMES.parse(text).calls
    assert (call.name, dict(call.arguments), call.error) == (name, arguments, None)


def test_several_calls_keep_their_order() -> None:
    text = "first " + HERMES.write_call("a", {"x": 1}) + " then " + HERMES.write_call("b", {})
    assert [call.name for call in HERMES.parse(text).calls] == ["a", "b"]


@pytest.mark.parametrize(
    ("block", "complaint"),
    [
        ("<tool_call>{bad}</tool_call>", "not valid JSON"),
        ("<tool_call>[1]</tool_call>", "a JSON list, not an object"),
        ('<tool_call>{"arguments": {}}</tool_call>', 'has no "name"'),
        ('<tool_call>{"name": "a", "arguments": "x"}</tool_call>', '"arguments" is not a JSON object'),
        ('<tool_call>{"name": "a", "arguments": {"x": NaN}}</tool_call>', "NaN is not JSON"),
        ('<tool_call>{"name": "a", "arguments": {"x": -1e999}}</tool_call>', "a number is out of range"),
        ('<tool_call>{"name": "a"}', "has no partner"),
        ("</tool_call>", "has no partner"),
        ("<tool_call>" + "[" * 100_000 + "</tool_call>", "not valid JSON"),
        (
            '<tool_call>{"name": "a", "arguments": {"x": ' + "[" * 40 + "]" * 40 + "}}</tool_call>",
            "nested deeper than 32",
        ),
    ],
)
def test_a_malformed_call_says_what_is_wrong(block: str, complaint: str) -> None:
    (call,) = HERMES.parse(block).calls
    assert call.kind is EventKind.MALFORMED_CALL
    assert complaint in str(call.error)


@pytest.mark.parametrize(
    ("text", "answer", "well_formed"),
    [
        ("<answer> Paris </answer>", "Paris", True),
        ("<think>maybe <answer>Rome</answer></think><answer>Paris</answer>", "Paris", True),
        ("reasoning opened by the prompt</think><answer>Paris</answer>", "Paris", True),
        ("<answer>Rome</answer><answer>Paris</answer>", "Paris", False),
        ("<answer>Rome <answer>Paris</answer>", "Paris", False),
        ("<answer></answer>", "", False),
        ("<answer>Paris", None, False),
        ("Paris", None, False),
        ("<think><answer>Paris</answer></think>", None, False),
        ("<think>still thinking: <answer>Paris</answer>", None, False),
        ("<think>a</think><answer>Rome</answer><think>no", "Rome", True),
    ],
)
def test_answers(text: str, answer: str | None, well_formed: bool) -> None:
    parsed = HERMES.parse(text)
    assert (parsed.answer, parsed.answer_well_formed) == (answer, well_formed)


def test_an_answer_closes_the_turn_unless_it_is_thought() -> None:
    assert HERMES.closes_turn("<think>hm</think><answer>Paris</answer>")
    assert not HERMES.closes_turn("<think>perhaps <answer>Paris</answer>")
    assert not HERMES.closes_turn("no opening tag</answer>")
    assert HERMES.opening("<|im_start|>assistant\n<think>\n") == "<think>"
    assert HERMES.opening("<|im_start|>assistant\n<think>\n\n</think>\n\n") == ""


def test_calls_inside_closed_thoughts_are_not_made() -> None:
    assert HERMES.parse(f"<think>{HERMES.write_call('a', {})}</think>").calls == ()


def test_a_long_run_of_opening_tags_is_read_in_linear_time() -> None:
    start = time.perf_counter()
    for tag in ("<think>", "<answer>", "<tool_call>"):
        HERMES.parse(tag * 30_000)
    assert time.perf_counter() - start < 5
