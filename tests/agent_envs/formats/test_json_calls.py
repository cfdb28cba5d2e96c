"""The JSON of calls: what is refused, and what it is made safe of."""

from __future__ import annotations

import pytest

from agent_envs.formats.json_calls import MAX_DEPTH, call_of, read_arguments, read_call, read_json, write_json
from agent_envs.types import EventKind, ToolCall

EXPECTED = "expected this"


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("{bad}", "not valid JSON"),
        ("", "not valid JSON"),
        ('{"name": "a"} {"name": "b"}', "not valid JSON (Extra data"),
        ("[1]", "a JSON list, not an object"),
        ("null", "a JSON NoneType, not an object"),
        ('{"arguments": {}}', 'has no "name"'),
        ('{"name": ""}', 'has no "name"'),
        ('{"name": 1}', 'has no "name"'),
        ('{"name": "a", "arguments": "x"}', '"arguments" is not a JSON object'),
        ('{"name": "a", "arguments": null}', '"arguments" is not a JSON object'),
        ('{"name": "a", "arguments": {"x": NaN}}', "NaN is not JSON"),
        ('{"name": "a", "arguments": {"x": Infinity}}', "a number is out of range"),
        ('{"name": "a", "arguments": {"x": -1e999}}', "a number is out of range"),
        ('{"name": "a", "arguments": {"x": ' + "9" * 5000 + "}}", "a number is out of range"),
        ("[" * 100_000, "nested deeper than 32 levels"),
        ('{"name": "a", "arguments": {"x": ' + "[" * 40 + "]" * 40 + "}}", "nested deeper than 32 levels"),
    ],
)
def test_a_malformed_call_says_what_is_wrong_and_what_was_expected(text: str, complaint: str) -> None:
    call = read_call(text, EXPECTED)
    assert (call.name, dict(call.arguments), call.kind) == ("", {}, EventKind.MALFORMED_CALL)
    assert complaint in str(call.error)
    assert str(call.error).endswith(EXPECTED)


def test_a_call_without_arguments_has_none() -> None:
    assert read_call('{"name": "a"}', EXPECTED) == ToolCall("a")


def test_arguments_go_by_the_first_key_that_is_there() -> None:
    assert read_call('{"name": "a", "parameters": {"x": 1}}', EXPECTED) == ToolCall("a")
    keys = ("arguments", "parameters")
    assert read_call('{"name": "a", "parameters": {"x": 1}}', EXPECTED, keys) == ToolCall("a", {"x": 1})
    both = '{"name": "a", "parameters": {"x": 1}, "arguments": {"x": 2}}'
    assert read_call(both, EXPECTED, keys) == ToolCall("a", {"x": 2})


@pytest.mark.parametrize(
    ("quoted", "complaint"),
    [('{"x": ', '"arguments" is a string that is not valid JSON'), ("[1]", '"arguments" is not a JSON object')],
)
def test_arguments_in_a_string_are_json_or_an_error(quoted: str, complaint: str) -> None:
    call = call_of({"name": "a", "arguments": quoted}, EXPECTED, quoted=True)
    assert complaint in str(call.error)


def test_lone_surrogates_become_question_marks() -> None:
    call = read_call('{"name": "a\\ud800", "arguments": {"\\udfff": ["\\ud83d\\ude00", "\\ud83d"]}}', EXPECTED)
    assert call == ToolCall("a?", {"?": ["😀", "?"]})


def test_the_deepest_value_allowed_is_read() -> None:
    assert read_json("[" * MAX_DEPTH + "]" * MAX_DEPTH) is not None
    with pytest.raises(ValueError, match="nested deeper"):
        read_json("[" * (MAX_DEPTH + 2) + "]" * (MAX_DEPTH + 2))


def test_arguments_by_themselves_are_an_object() -> None:
    assert read_arguments("a", ' {"x": 1}\n', EXPECTED) == ToolCall("a", {"x": 1})
    assert "the arguments of 'a' are a JSON list" in str(read_arguments("a", "[]", EXPECTED).error)
    assert "the arguments of 'a' are not valid JSON" in str(read_arguments("a", "x = 1", EXPECTED).error)


def test_written_json_spells_no_mark() -> None:
    assert write_json({"x": "a < b"}, ("<end>",)) == '{"x": "a < b"}'
    assert write_json({"x": "<end>"}, ("<end>",)) == '{"x": "\\u003cend>"}'
