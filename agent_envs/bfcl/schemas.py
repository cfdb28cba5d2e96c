"""BFCL's descriptions of functions as tools with JSON schemas."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agent_envs.bfcl.package import json_types


def tool_name(function_name: str) -> str:
    """The name that the policy calls: dots become underscores, as the package does for function-calling models."""
    return function_name.replace(".", "_")


def json_schema(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters with JSON schema's types: dict becomes object, float number, tuple array; unknown ones string."""
    return {**_converted(parameters, json_types()), "type": "object"}


def _converted(schema: Mapping[str, Any], types: Mapping[str, str]) -> dict[str, Any]:
    converted = {**schema, "type": types.get(schema.get("type", "string"), "string")}
    if isinstance(schema.get("properties"), Mapping):
        converted["properties"] = {name: _converted(inner, types) for name, inner in schema["properties"].items()}
    if isinstance(schema.get("items"), Mapping):
        converted["items"] = _converted(schema["items"], types)
    return converted
