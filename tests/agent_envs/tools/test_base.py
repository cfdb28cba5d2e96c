"""Tools from typed functions: the schema, the validation, the words of an error."""

from __future__ import annotations

import copy
import dataclasses
import enum
from typing import Any

import pydantic
import pytest

from agent_envs.errors import ConfigError, ToolUseError
from agent_envs.tools import schema_tool, tool


class Unit(enum.StrEnum):
    """Units of length."""

    METRE = "m"
    FOOT = "ft"


class Place(pydantic.BaseModel):
    """A point."""

    x: int
    y: int = 0


def measure(name: str, place: Place, units: list[Unit], limit: int | None = None) -> str:
    """Measure a thing.

    More text that is not for the policy.

    Args:
        name: what to measure,
            over two lines.
        place: where.
        units: in which units.
        limit: how many.

    Returns:
        something.
    """
    return f"{name} {place.x} {place.y} {[unit.value for unit in units]} {limit}"


def test_the_schema_comes_from_signature_and_docstring() -> None:
    made = tool(measure)
    assert (made.name, made.description) == ("measure", "Measure a thing.")
    assert made.parameters["required"] == ["name", "place", "units"]
    assert made.parameters["properties"]["name"] == {
        "description": "what to measure, over two lines.",
        "type": "string",
    }
    assert made.schema["function"]["parameters"]["properties"]["limit"]["default"] is None


def test_arguments_are_converted_and_defaults_filled_in() -> None:
    made = tool(measure)
    arguments = made.validate({"name": "a", "place": {"x": 3}, "units": ["ft"]})
    assert made.function(**arguments) == "a 3 0 ['ft'] None"


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ({}, "name: required, but missing"),
        ({"name": 3, "place": {"x": 1}, "units": []}, "name: should be a valid string (got 3)"),
        ({"name": "a", "place": {"x": "no"}, "units": []}, "place.x: should be a valid integer"),
        ({"name": "a", "place": {"x": 1}, "units": ["mile"]}, "units.0: should be 'm' or 'ft' (got \"mile\")"),
        (
            {"name": "a", "place": {"x": 1}, "units": [], "limits": 1},
            "limits: no such argument (did you mean limit? the known ones are: name, place, units, limit)",
        ),
    ],
)
def test_wrong_arguments_are_named(arguments: dict[str, object], complaint: str) -> None:
    with pytest.raises(ToolUseError) as caught:
        tool(measure).validate(arguments)
    assert complaint in str(caught.value)


def test_a_parameter_without_a_type_is_refused() -> None:
    def untyped(x) -> str:  # type: ignore[no-untyped-def]
        return str(x)

    with pytest.raises(TypeError, match="needs a type for each parameter"):
        tool(untyped)


def test_a_decorator_makes_a_tool_bare_or_with_options() -> None:
    @tool
    def plain(x: int) -> str:
        """Do it."""
        return str(x)

    @tool(name="other", timeout_s=None, retries=2, max_output_tokens=50, concurrent=False)
    def configured(x: int) -> str:
        """Do it."""
        return str(x)

    assert (plain.name, plain.timeout_s, plain.retries, plain.max_output_tokens, plain.concurrent) == (
        "plain",
        30.0,
        0,
        None,
        True,
    )
    assert (configured.name, configured.timeout_s, configured.retries) == ("other", None, 2)
    assert (configured.max_output_tokens, configured.concurrent) == (50, False)
    assert configured.function(**configured.validate({"x": 1})) == "1"


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"timeout_s": 0}, "timeout_s of the tool 'measure' must be above 0 or None, not 0"),
        ({"timeout_s": float("nan")}, "timeout_s"),
        ({"retries": -1}, "retries of the tool 'measure' must be 0 or more, not -1"),
        ({"max_output_tokens": 0}, "max_output_tokens of the tool 'measure' must be 1 or more, or None, not 0"),
        ({"name": "two words"}, "'two words'"),
        ({"name": ""}, "''"),
    ],
)
def test_options_out_of_range_are_refused(options: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ConfigError) as caught:
        tool(measure, **options)
    assert complaint in str(caught.value)


def test_a_function_without_a_name_needs_one() -> None:
    with pytest.raises(ConfigError, match="give name="):
        tool(lambda: "nothing")
    assert tool(lambda: "nothing", name="nothing").parameters == {"type": "object", "properties": {}}


def test_tools_are_equal_only_to_themselves() -> None:
    one, same = tool(measure), tool(measure)
    assert one != same
    assert len({one, same}) == 2


def test_a_variant_shares_the_lock_and_a_copy_has_its_own() -> None:
    made = tool(measure, concurrent=False)
    variant, copied = dataclasses.replace(made, timeout_s=1.0), copy.deepcopy(made)
    assert made.lock.acquire(1.0)
    assert not variant.lock.acquire(0.0)
    assert copied.lock.acquire(0.0)


@pytest.mark.parametrize("validate", [True, False])
def test_the_function_gets_copies_of_what_the_policy_wrote(validate: bool) -> None:
    def grow(items: list[Any]) -> str:
        items[0].append(1)
        return str(items)

    written: dict[str, Any] = {"items": [[]]}
    for made in (
        tool(grow, name="grow"),
        schema_tool("grow", "", {"type": "object"}, grow, validate=validate),
    ):
        assert made.function(**made.validate(written)) == "[[1]]"
    assert written == {"items": [[]]}


def test_arguments_nested_without_end_are_refused_in_words() -> None:
    deep: Any = 0
    for _ in range(900):
        deep = [deep]
    recursive = {
        "type": "object",
        "properties": {"x": {"$ref": "#/$defs/L"}},
        "$defs": {"L": {"items": {"$ref": "#/$defs/L"}}},
    }
    for made in (schema_tool("sort", "", recursive, measure), schema_tool("sort", "", {}, measure, validate=False)):
        with pytest.raises(ToolUseError, match="the arguments of sort are nested deeper than 50"):
            made.validate({"x": deep})
