"""JSON schemas: readable for small models, and words for arguments that do not fit."""

from __future__ import annotations

from typing import Any

import pytest

from agent_envs.errors import ConfigError, ToolUseError
from agent_envs.tools import schema_tool
from agent_envs.tools.json_schema import readable

BOOKING: dict[str, Any] = {
    "type": "object",
    "properties": {
        "city": {"type": "string", "minLength": 2},
        "nights": {"type": ["integer", "null"]},
        "rooms": {"type": "array", "items": {"enum": ["single", "double"]}},
        "guest": {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]},
        "pay": {"anyOf": [{"type": "integer"}, {"const": "free"}]},
    },
    "required": ["city"],
    "additionalProperties": False,
}


def book(**arguments: Any) -> str:
    return str(arguments)


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ({}, "city: required, but missing"),
        ({"city": 3}, "city: expected string (got 3)"),
        ({"city": "x"}, 'city: does not fit minLength 2 (got "x")'),
        ({"city": "Rome", "nights": "3"}, 'nights: expected integer or null (got "3")'),
        ({"city": "Rome", "rooms": ["single", "twin"]}, 'rooms.1: expected one of ["single", "double"] (got "twin")'),
        ({"city": "Rome", "guest": {}}, "guest.name: required, but missing"),
        ({"city": "Rome", "pay": "much"}, 'pay: expected integer or expected "free" (got "much")'),
        (
            {"city": "Rome", "night": 1},
            "night: no such argument (did you mean nights? the known ones are: city, nights, rooms, guest, pay)",
        ),
    ],
)
def test_wrong_arguments_are_named(arguments: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ToolUseError) as caught:
        schema_tool("book", "Book a hotel.", BOOKING, book).validate(arguments)
    assert str(caught.value) == f"the arguments of book are wrong: {complaint}"


def test_each_complaint_is_made_once_and_patterns_are_known() -> None:
    schema = {
        "properties": {"a": {}, "b": {}},
        "patternProperties": {"^x_": {"type": "integer"}},
        "required": ["a", "b"],
        "additionalProperties": False,
    }
    with pytest.raises(ToolUseError) as caught:
        schema_tool("book", "", schema, book).validate({"x_1": 1, "z": 2})
    assert str(caught.value) == (
        "the arguments of book are wrong: a: required, but missing; b: required, but missing; "
        "z: no such argument (the known ones are: a, b)"
    )


def test_fitting_arguments_come_back_as_they_came() -> None:
    made = schema_tool("book", "Book a hotel.", BOOKING, book)
    assert made.validate({"city": "Rome", "nights": None}) == {"city": "Rome", "nights": None}
    assert made.schema["function"] == {"name": "book", "description": "Book a hotel.", "parameters": BOOKING}


def test_validation_can_be_left_to_the_grader() -> None:
    odd = {"type": "dict", "properties": {"city": {"type": "float"}}}  # not of JSON Schema's types
    made = schema_tool("book", "Book a hotel.", odd, book, validate=False)
    assert made.validate({"anything": 1}) == {"anything": 1}
    with pytest.raises(ConfigError, match=r"parameters of the tool 'book' are no JSON schema: \$\.properties\.city"):
        schema_tool("book", "Book a hotel.", odd | {"type": "object"}, book)


def test_a_schema_that_points_elsewhere_is_refused_and_never_fetched() -> None:
    outside = {"type": "object", "properties": {"city": {"$ref": "http://127.0.0.1:9/city.json"}}}
    dangling = {"type": "object", "properties": {"city": {"$ref": "#/$defs/City"}}}
    for schema in (outside, dangling):
        with pytest.raises(ConfigError, match="which is not in their schema"):
            schema_tool("book", "", schema, book)


def test_references_are_resolved_when_arguments_are_checked() -> None:
    schema = {
        "type": "object",
        "properties": {"a": {"$ref": "#/definitions/Age"}},
        "definitions": {"Age": {"type": "integer"}},
    }
    made = schema_tool("age", "", schema, book)
    assert made.validate({"a": 1}) == {"a": 1}
    with pytest.raises(ToolUseError, match="a: expected integer"):
        made.validate({"a": "x"})


def test_definitions_go_where_they_are_used_and_titles_go() -> None:
    schema = {
        "title": "Arguments",
        "properties": {
            "a": {"$ref": "#/$defs/Pair", "description": "its own"},
            "title": {"type": "string", "title": "Title", "default": {"title": "kept: this is data"}},
        },
        "$defs": {
            "Pair": {"title": "Pair", "description": "general", "prefixItems": [{"$ref": "#/$defs/One"}]},
            "One": {"title": "One", "type": "integer"},
        },
    }
    assert readable(schema) == {
        "properties": {
            "a": {"description": "its own", "prefixItems": [{"type": "integer"}]},
            "title": {"type": "string", "default": {"title": "kept: this is data"}},
        }
    }


def test_definitions_that_lead_to_each_other_stay() -> None:
    schema = {
        "properties": {"a": {"$ref": "#/definitions/A"}, "c": {"$ref": "#/definitions/C"}},
        "definitions": {
            "A": {"properties": {"b": {"$ref": "#/definitions/B"}}},
            "B": {"properties": {"a": {"$ref": "#/definitions/A"}}},
            "C": {"anyOf": [{"$ref": "#/definitions/A"}, True]},
        },
    }
    to_a, to_b = {"$ref": "#/$defs/A"}, {"$ref": "#/$defs/B"}
    assert readable(schema) == {
        "properties": {"a": to_a, "c": {"anyOf": [to_a, True]}},
        "$defs": {"A": {"properties": {"b": to_b}}, "B": {"properties": {"a": to_a}}},
    }


def test_definitions_that_would_multiply_stay_apart() -> None:
    levels = 40  # two of the next in each: a million million written out
    definitions = {f"L{n}": {"anyOf": [{"$ref": f"#/$defs/L{n + 1}"}] * 2} for n in range(levels)}
    schema = {"properties": {"a": {"$ref": "#/$defs/L0"}}, "$defs": definitions | {f"L{levels}": {"type": "null"}}}
    assert readable(schema) == schema


def test_a_schema_that_points_into_its_own_parts_is_left_alone() -> None:
    schema = {
        "title": "Arguments",
        "properties": {"a": {"$ref": "#/$defs/A"}, "b": {"$ref": "#/properties/a"}},
        "$defs": {"A": {"type": "integer"}},
    }
    assert readable(schema) == schema
    with pytest.raises(ToolUseError, match="b: expected integer"):
        schema_tool("book", "", readable(schema), book).validate({"b": "x"})
