"""The Hermes format, strict and lenient: what counts as a call and an answer."""

from __future__ import annotations

import pytest

from agent_envs.formats import FORMATS
from agent_envs.types import EventKind, ToolCall

HERMES = FORMATS.get("hermes")
LENIENT = FORMATS.get("hermes-lenient")
CALL = '{"name": "a", "arguments": {"x": 1}}'
BOTH = pytest.mark.parametrize("tool_format", [HERMES, LENIENT], ids=["strict", "lenient"])


def test_a_call_is_written_as_qwens_template_writes_it() -> None:
    assert HERMES.write_calls([ToolCall("a", {"x": "é"}), ToolCall("b")]) == (
        '<tool_call>\n{"name": "a", "arguments": {"x": "é"}}\n</tool_call>\n'
        '<tool_call>\n{"name": "b", "arguments": {}}\n</tool_call>'
    )


@BOTH
def test_several_calls_keep_their_order(tool_format: object) -> None:
    text = f"first <tool_call>{CALL}</tool_call> then <tool_call>" + '{"name": "b"}</tool_call>'
    assert HERMES.parse(text).calls == (ToolCall("a", {"x": 1}), ToolCall("b"))


@pytest.mark.parametrize(
    ("block", "complaint"),
    [
        ("<tool_call>{bad}</tool_call>", "not valid JSON"),
        ("<tool_call>[1]</tool_call>", "a JSON list, not an object"),
        ('<tool_call>{"name": "a"}', "has no partner"),
        ("</tool_call>", "has no partner"),
        ("<tool_call>" + "[" * 100_000 + "</tool_call>", "not valid JSON (nested deeper than 32"),
    ],
)
def test_a_malformed_call_says_what_is_wrong(block: str, complaint: str) -> None:
    for tool_format in (HERMES, LENIENT):
        (call,) = tool_format.parse(block).calls
        assert call.kind is EventKind.MALFORMED_CALL
        assert complaint in str(call.error)
        assert str(call.error).endswith('expected <tool_call>{"name": "...", "arguments": {...}}</tool_call>')


@pytest.mark.parametrize(
    ("text", "answer", "well_formed"),
    [
        ("<answer> Paris </answer>", "Paris", True),
        ("<think>maybe <answer>Rome</answer></think><answer>Paris</answer>", "Paris", True),
        ("reasoning opened by the prompt</think><answer>Paris</answer>", "Paris", True),
        ("<answer>Rome</answer><answer>Paris</answer>", "Paris", False),
        ("<answer>Rome <answer>Paris</answer>", "Paris", False),
        ("<answer>Paris</answer></answer>", "Paris", False),
        ("<answer></answer>", "", False),
        ("<answer>Paris", None, False),
        ("Paris", None, False),
        ("<think><answer>Paris</answer></think>", None, False),
        ("<think>still thinking: <answer>Paris</answer>", None, False),
        ("<think>a</think><answer>Rome</answer><think>no", "Rome", True),
    ],
)
def test_answers(text: str, answer: str | None, well_formed: bool) -> None:
    for tool_format in (HERMES, LENIENT):
        parsed = tool_format.parse(text)
        assert (parsed.answer, parsed.answer_well_formed) == (answer, well_formed)


def test_an_answer_closes_the_turn_unless_it_is_thought() -> None:
    assert HERMES.closes_turn("<think>hm</think><answer>Paris</answer>")
    assert not HERMES.closes_turn("<think>perhaps <answer>Paris</answer>")
    assert not HERMES.closes_turn("no opening tag</answer>")
    assert HERMES.opening("<|im_start|>assistant\n<think>\n") == "<think>"
    assert HERMES.opening("<|im_start|>assistant\n<think>\n\n</think>\n\n") == ""


LENIENT_CALLS = [
    CALL,
    f"I will look it up: {CALL} and see.",
    f"```json\n{CALL}\n```",
    f"```\n{CALL}\n```",
    f"[{CALL}]",
    '{"name": "a", "parameters": {"x": 1}}',
    '{"name": "a", "arguments": "{\\"x\\": 1}"}',
    '{"arguments": {"x": 1}, "name": "a", "id": "call_1"}',
    f'Such as {{"x": 2}}, or {{broken "}} {CALL}',
]


@pytest.mark.parametrize("text", LENIENT_CALLS)
def test_only_the_lenient_variant_takes_calls_without_tags(text: str) -> None:
    assert LENIENT.parse(text).calls == (ToolCall("a", {"x": 1}),)
    assert HERMES.parse(text).calls == ()


@pytest.mark.parametrize(
    "body", ['{"name": "a", "parameters": {"x": 1}}', '{"name": "a", "arguments": "{\\"x\\": 1}"}']
)
def test_between_tags_the_lenient_variant_takes_other_spellings_too(body: str) -> None:
    text = f"<tool_call>{body}</tool_call>"
    assert LENIENT.parse(text).calls == (ToolCall("a", {"x": 1}),)
    assert HERMES.parse(text).calls != LENIENT.parse(text).calls


def test_bare_calls_keep_their_order() -> None:
    text = f'{CALL}\n[{{"name": "b", "arguments": {{}}}}, {{"name": "c", "arguments": {{}}}}]\n```json\n{CALL}\n```'
    assert [call.name for call in LENIENT.parse(text).calls] == ["a", "b", "c", "a"]


@pytest.mark.parametrize(
    "text",
    [
        f"<think>{CALL}</think>",
        f"<think>{CALL}",
        f"{CALL}</think>",
        f"<answer>{CALL}</answer>",
        f"<answer>{CALL}",
        '{"name": "Mara Velt", "born": 1951}',
        '{"arguments": {"x": 1}}',
        '```json\n{"query": "x"}\n```',
        '[{"x": 1}, 2]',
        '{"call": ' + CALL + "}",
        '{"name": 7, "arguments": {}}',
    ],
)
def test_what_is_no_call_is_left_alone(text: str) -> None:
    assert LENIENT.parse(text).calls == ()


def test_where_a_tag_is_json_outside_is_an_example() -> None:
    text = f'Like {CALL}: <tool_call>{{"name": "b", "arguments": {{}}}}</tool_call>'
    assert [call.name for call in LENIENT.parse(text).calls] == ["b"]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ('{"name": "a", "arguments": {"x": }}', "not valid JSON (Expecting value"),
        ('```json\n{"name": "a", "arguments": {"x": 1}\n```', "not valid JSON"),
        ('[{"name": "a", "arguments": {}}', "not valid JSON"),
        ('{"name": "a", "arguments": "nothing"}', '"arguments" is a string that is not valid JSON'),
        ('{"name": "a", "arguments": [1]}', '"arguments" is not a JSON object'),
        ('{"name": "", "arguments": {}}', 'no "name"'),
        ('{"name": "a", "arguments": {"x": NaN}}', "NaN is not JSON"),
        ('{"name": "a", "arguments": ' + '{"x":' * 2000, "nested deeper than 32"),
    ],
)
def test_a_bare_call_that_cannot_be_read_is_malformed(text: str, complaint: str) -> None:
    (call,) = LENIENT.parse(text).calls
    assert call.kind is EventKind.MALFORMED_CALL
    assert complaint in str(call.error)


def test_nothing_behind_a_broken_call_is_read() -> None:
    text = f'{CALL} {{"name": "b" "arguments": {CALL}}} {CALL}'
    assert [call.name for call in LENIENT.parse(text).calls] == ["a", ""]


def test_answer_tags_in_an_argument_are_no_answer() -> None:
    call = '<tool_call>{"name": "write", "arguments": {"text": "\\"<answer>x</answer>"}}</tool_call>'
    parsed = HERMES.parse(call)
    assert [one.arguments for one in parsed.calls] == [{"text": '"<answer>x</answer>'}] and parsed.answer is None
    assert not any(HERMES.closes_turn(call[:count]) for count in range(len(call) + 1))
    assert HERMES.parse(f"{call}<answer>y</answer>").answer == "y"
    assert HERMES.closes_turn(f"{call}\n<answer>y</answer>")
    # Outside strings they are one, as in a call that was never closed.
    for broken in ('<tool_call>{"name": "write"}', "<tool_call>{broken", '<tool_call>"a" "b'):
        assert HERMES.closes_turn(f"{broken}</tool_call><answer>y</answer>")
    assert HERMES.parse('<tool_call>{"name": "write"} <answer>y</answer>').answer == "y"
