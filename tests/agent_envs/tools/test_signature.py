"""Schemas and conversions of every kind of type that a tool's parameter may have."""

from __future__ import annotations

import dataclasses
import datetime
import enum
import functools
import json
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Annotated, Any, Literal

import jsonschema
import pydantic
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typing_extensions import TypedDict

from agent_envs.errors import ToolUseError
from agent_envs.tools import tool


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


@dataclasses.dataclass
class Point:
    x: float
    y: float = 0.0


class Options(TypedDict, total=False):
    depth: int
    title: str


class Cat(pydantic.BaseModel):
    """A cat."""

    kind: Literal["cat"]
    lives: int = pydantic.Field(9, le=9, description="left")


class Dog(pydantic.BaseModel):
    kind: Literal["dog"]


class Tree(pydantic.BaseModel):
    value: int
    children: list[Tree] = []


class Opaque:
    """No type that a schema can describe."""


Pet = Annotated[Cat | Dog, pydantic.Field(discriminator="kind")]


def schema_of(function: Callable[..., str]) -> Mapping[str, Any]:
    properties: Mapping[str, Any] = tool(function).parameters["properties"]
    return properties


def complaint_of(function: Callable[..., str], arguments: Mapping[str, Any]) -> str:
    with pytest.raises(ToolUseError) as caught:
        tool(function).validate(arguments)
    return str(caught.value).removeprefix(f"the arguments of {function.__name__} are wrong: ")


def test_nested_types_stand_where_they_are_used() -> None:
    def visit(pet: Pet, way: list[Point]) -> str:
        """Visit a pet."""
        return f"{pet!r} {way!r}"

    point = {
        "type": "object",
        "additionalProperties": False,
        "properties": {"x": {"type": "number"}, "y": {"type": "number", "default": 0.0}},
        "required": ["x"],
    }
    cat = {
        "type": "object",
        "description": "A cat.",
        "properties": {
            "kind": {"type": "string", "const": "cat"},
            "lives": {"type": "integer", "default": 9, "maximum": 9, "description": "left"},
        },
        "required": ["kind"],
    }
    dog = {"type": "object", "properties": {"kind": {"type": "string", "const": "dog"}}, "required": ["kind"]}
    assert schema_of(visit) == {"pet": {"oneOf": [cat, dog]}, "way": {"type": "array", "items": point}}
    arguments = tool(visit).validate({"pet": {"kind": "cat"}, "way": [{"x": 1}]})
    assert arguments == {"pet": Cat(kind="cat"), "way": [Point(1.0)]}


def test_a_type_that_contains_itself_is_kept_apart() -> None:
    def grow(tree: Tree) -> str:
        """Grow a tree."""
        return str(tree)

    parameters = tool(grow).parameters
    assert parameters["properties"] == {"tree": {"$ref": "#/$defs/Tree"}}
    assert parameters["$defs"]["Tree"]["properties"]["children"]["items"] == {"$ref": "#/$defs/Tree"}
    assert complaint_of(grow, {"tree": {"value": 1, "children": [{"value": "?"}]}}).startswith("tree.children.0.value:")


def test_a_property_named_title_is_no_title() -> None:
    def name(options: Options) -> str:
        """Name a thing."""
        return str(options)

    assert set(schema_of(name)["options"]["properties"]) == {"depth", "title"}


@pytest.mark.parametrize(
    ("annotation", "given_value", "converted"),
    [
        (int, "3", 3),  # near misses are taken, as pydantic does
        (int, 3.0, 3),
        (float, 3, 3.0),
        (bool, "yes", True),
        (Colour, "red", Colour.RED),
        (Literal["a", "b"], "b", "b"),
        (int | None, None, None),
        (int | str, "3", "3"),
        (dict[str, list[int]], {"a": [1, "2"]}, {"a": [1, 2]}),
        (set[int], [1, 1, 2], {1, 2}),
        (tuple[int, str], [1, "a"], (1, "a")),
        (datetime.date, "2024-02-29", datetime.date(2024, 2, 29)),
        (Decimal, "0.10", Decimal("0.10")),
        (Options, {"depth": "2"}, {"depth": 2}),
        (Annotated[int, pydantic.Field(ge=1)], 1, 1),
    ],
)
def test_values_are_converted(annotation: Any, given_value: Any, converted: Any) -> None:
    def take(x: Any) -> str:
        """Take it."""
        return str(x)

    take.__annotations__["x"] = annotation
    assert tool(take).validate({"x": given_value}) == {"x": converted}


def test_names_that_pydantic_keeps_for_itself_are_fine() -> None:
    def odd(schema: int, _x: int, copy: int, model_config: int) -> str:
        """Take odd names."""
        return str(schema + _x + copy + model_config)

    made = tool(odd)
    assert made.function(**made.validate({"schema": 1, "_x": 2, "copy": 3, "model_config": 4})) == "10"


def test_defaults_are_json_or_left_out() -> None:
    marker = object()

    def look(
        colour: Colour = Colour.BLUE,
        point: Point = Point(1.0),  # noqa: B008
        count: int = pydantic.Field(2, gt=0, description="its own words"),
        secret: Any = marker,
    ) -> str:
        """Look.

        Args:
            count: the docstring's words.
        """
        return f"{colour} {point} {count} {secret}"

    schema = schema_of(look)
    assert json.loads(json.dumps(schema)) == schema
    assert (schema["colour"]["default"], schema["point"]["default"]) == ("blue", {"x": 1.0, "y": 0.0})
    assert schema["count"]["description"] == "its own words"
    assert "default" not in schema["secret"]
    assert tool(look).validate({})["secret"] is marker


def test_what_is_bound_is_none_of_the_policys_business() -> None:
    def find(query: str, index: dict[str, str]) -> str:
        """Find an entry."""
        return index[query]

    made = tool(functools.partial(find, index={"a": "1"}))
    assert (made.name, list(made.parameters["properties"])) == ("find", ["query"])
    assert made.function(**made.validate({"query": "a"})) == "1"
    with pytest.raises(ToolUseError, match="index: no such argument"):
        made.validate({"query": "a", "index": {}})


def test_a_bound_method_is_a_tool() -> None:
    class Counter:
        def __init__(self) -> None:
            self.total = 0

        def add(self, amount: int) -> str:
            """Add to the total."""
            self.total += amount
            return str(self.total)

    counter = Counter()
    made = tool(counter.add)
    assert list(made.parameters["properties"]) == ["amount"]
    made.function(amount=2)
    assert counter.total == 2
    with pytest.raises(TypeError, match=r"'self' has none \(make tools of bound methods"):
        tool(Counter.add)


def test_wrong_arguments_are_told_where_what_and_what_came() -> None:
    def act(pet: Pet, point: Point, size: int | list[int] = 0) -> str:
        """Act."""
        return f"{pet} {point} {size}"

    fine = {"pet": {"kind": "dog"}, "point": {"x": 0}}
    assert complaint_of(act, fine | {"pet": {"kind": "cow"}}).startswith("pet: Input tag 'cow'")
    assert complaint_of(act, fine | {"pet": {"kind": "cat", "lives": 10}}) == (
        "pet.lives: should be less than or equal to 9 (got 10)"
    )
    assert complaint_of(act, fine | {"point": "here"}) == 'point: should be an object (got "here")'
    assert complaint_of(act, fine | {"point": {"x": 1, "z": 2}}) == "point.z: no such argument"
    assert complaint_of(act, fine | {"size": "big"}) == (
        'size: should be a valid integer, unable to parse string as an integer or a valid list (got "big")'
    )
    assert complaint_of(act, {"points": 1}) == (
        "pet: required, but missing; point: required, but missing; "
        "points: no such argument (did you mean point? the known ones are: pet, point, size)"
    )


def test_long_values_and_long_lists_are_cut() -> None:
    def add(numbers: list[int]) -> str:
        """Add."""
        return str(sum(numbers))

    complaint = complaint_of(add, {"numbers": ["x" * 1000] * 20})
    assert complaint.endswith("and 15 more")
    assert len(complaint) < 1000


def test_a_validators_own_words_reach_the_policy() -> None:
    def positive(value: int) -> int:
        if value < 0:
            raise ValueError("count upwards")
        return value

    def count(to: Annotated[int, pydantic.AfterValidator(positive)]) -> str:
        """Count."""
        return str(to)

    count.__annotations__["to"] = Annotated[int, pydantic.AfterValidator(positive)]
    assert complaint_of(count, {"to": -1}) == "to: count upwards (got -1)"


def untyped(a: int, b) -> str:  # type: ignore[no-untyped-def]
    return f"{a}{b}"


def starred(*a: int) -> str:
    return str(a)


def keywords(**a: int) -> str:
    return str(a)


def positional(a: int, /) -> str:
    return str(a)


def opaque(a: int, b: Opaque) -> str:
    return f"{a}{b}"


def callback(a: int, b: Callable[[int], int]) -> str:
    return f"{a}{b}"


def unresolved(a: int, b: Nowhere) -> str:  # type: ignore[name-defined]  # noqa: F821
    return f"{a}{b}"


def quoted(a: int, b: "Nowhere") -> str:  # type: ignore[name-defined]  # noqa: F821, UP037
    return f"{a}{b}"


@pytest.mark.parametrize(
    ("function", "complaint"),
    [
        (untyped, "'b' has none"),
        (starred, r"not \*a: int \(variadic positional\)"),
        (keywords, r"not \*\*a: int \(variadic keyword\)"),
        (positional, r"not a: int \(positional-only\)"),
        (opaque, "cannot take its parameter 'b'"),
        (callback, "cannot take its parameter 'b'"),
        (unresolved, "'Nowhere' is not defined; types of a tool's parameters must be"),
        (quoted, "cannot take its parameter 'b'"),
    ],
)
def test_a_signature_that_no_schema_describes_is_refused(function: Callable[..., str], complaint: str) -> None:
    with pytest.raises(TypeError, match=complaint) as caught:
        tool(function)
    assert f"the tool {function.__name__!r}" in str(caught.value)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)


@settings(max_examples=50)
@given(st.dictionaries(st.sampled_from(["pet", "way", "tree", "colour", "?"]), json_values))
def test_any_arguments_fit_or_are_refused_in_words(arguments: dict[str, Any]) -> None:
    try:
        assert set(WIDE.validate(arguments)) == {"pet", "way", "tree", "colour"}
    except ToolUseError as error:
        assert len(str(error)) < 3000


def wide(
    pet: Pet | None = None,
    way: list[Point] | dict[str, int] | None = None,
    tree: Tree | None = None,
    colour: Colour = Colour.RED,
) -> str:
    """Take much."""
    return f"{pet}{way}{tree}{colour}"


WIDE = tool(wide)


small_values = st.none() | st.integers(-9, 9) | st.sampled_from(["red", "cat", "dog", ""])
near_values = st.recursive(
    small_values,
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(st.sampled_from(["kind", "lives", "x", "y", "value", "children"]), inner, max_size=3)
    ),
    max_leaves=5,
)


@settings(max_examples=200)
@given(st.fixed_dictionaries({}, optional=dict.fromkeys(["pet", "way", "tree", "colour"], near_values)))
def test_what_the_schema_allows_the_tool_takes(arguments: dict[str, Any]) -> None:
    if jsonschema.Draft202012Validator(WIDE.parameters).is_valid(arguments):
        WIDE.validate(arguments)


@given(
    st.lists(st.builds(Point, st.floats(allow_nan=False), st.floats(allow_nan=False)), max_size=4),
    st.sampled_from(Colour),
)
def test_what_the_schema_describes_comes_back(way: list[Point], colour: Colour) -> None:
    written = json.loads(json.dumps({"way": [dataclasses.asdict(point) for point in way], "colour": colour.value}))
    validated = WIDE.validate(written)
    assert (validated["way"], validated["colour"]) == (way, colour)
