"""Tools from typed functions: the schema, the validation, the words of an error."""

from __future__ import annotations

import enum

import pydantic
import pytest

from agent_envs.errors import ToolUseError
from agent_envs.tools import tool


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
