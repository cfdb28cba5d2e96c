"""What formats need to know of the tools' schemas, as OpenAI's ``{"type": "function", "function": {...}}`` or bare."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


def function_of(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """The part with the name, description and parameters."""
    function = schema.get("function", schema)
    return function if isinstance(function, Mapping) else {}


def names_of(schemas: Sequence[Mapping[str, Any]]) -> list[str]:
    """The tools' names, in order."""
    return [str(function_of(schema).get("name", "")) for schema in schemas]


def takes_only(schema: Mapping[str, Any], name: str, argument: str) -> bool:
    """Whether this is a tool of that name which can be called with that one text argument."""
    function = function_of(schema)
    parameters = function.get("parameters", {})
    argument_schema = parameters.get("properties", {}).get(argument)
    is_text = isinstance(argument_schema, Mapping) and argument_schema.get("type", "string") == "string"
    return function.get("name") == name and is_text and set(parameters.get("required", ())) <= {argument}


def description_of(schemas: Sequence[Mapping[str, Any]], name: str) -> str:
    """What the tool of that name says of itself; "" where there is none."""
    found = (function_of(schema) for schema in schemas)
    return next((str(function.get("description", "")) for function in found if function.get("name") == name), "")
