"""JSON schemas of tools as the TypeScript-like types in which harmony shows them to gpt-oss."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from agent_envs.formats.schemas import function_of

_MAX_DEPTH = 4  # of types within types: a schema may refer to itself
_SIMPLE = {"string": "string", "integer": "number", "number": "number", "boolean": "boolean", "null": "null"}

Schema = Mapping[str, Any]


def namespace(schemas: Sequence[Schema]) -> str:
    """All functions of ``namespace functions``. What a schema says that types cannot say is left out."""
    functions = "\n\n".join("\n".join(_function(function_of(schema))) for schema in schemas)
    return f"namespace functions {{\n\n{functions}\n\n}} // namespace functions"


def _function(function: Schema) -> Iterator[str]:
    parameters = function.get("parameters")
    schema: Schema = parameters if isinstance(parameters, Mapping) else {}
    yield from _comment(function.get("description"))
    name = function.get("name", "")
    if not schema.get("properties"):
        yield f"type {name} = () => any;"
        return
    yield f"type {name} = (_: {{"
    yield from _properties(schema, schema, 0)
    yield "}) => any;"


def _properties(schema: Schema, root: Schema, depth: int) -> Iterator[str]:
    required = schema.get("required", ())
    for name, inner in schema["properties"].items():
        inner = inner if isinstance(inner, Mapping) else {}
        yield from _comment(inner.get("description"))
        default = f" // default: {_literal(inner['default'])}" if "default" in inner else ""
        yield f"{name}{'' if name in required else '?'}: {_type(inner, root, depth)},{default}"


def _type(schema: Any, root: Schema, depth: int) -> str:
    if not isinstance(schema, Mapping) or depth > _MAX_DEPTH:
        return "any"
    if "$ref" in schema:
        return _type(_referred(str(schema["$ref"]), root), root, depth + 1)
    if "enum" in schema or "const" in schema:
        return " | ".join(_literal(value) for value in schema.get("enum", (schema.get("const"),)))
    choices = schema.get("anyOf") or schema.get("oneOf")
    if choices:
        return " | ".join(dict.fromkeys(_type(choice, root, depth + 1) for choice in choices))
    kind = schema.get("type")
    if isinstance(kind, list):
        return " | ".join(_type({**schema, "type": one}, root, depth + 1) for one in kind)
    return _plain_type(str(kind), schema, root, depth)


def _plain_type(kind: str, schema: Schema, root: Schema, depth: int) -> str:
    if kind == "array":
        item = _type(schema.get("items"), root, depth + 1)
        return f"({item})[]" if " " in item and not item.startswith("{") else f"{item}[]"
    if kind == "object" and schema.get("properties"):
        return "{\n" + "\n".join(_properties(schema, root, depth + 1)) + "\n}"
    return "object" if kind == "object" else _SIMPLE.get(kind, "any")


def _referred(reference: str, root: Schema) -> Any:
    """What a reference within the schema points to, such as ``#/$defs/Item``; None where there is nothing."""
    found: Any = root
    for step in reference.removeprefix("#/").split("/"):
        found = found.get(step) if isinstance(found, Mapping) else None
    return found


def _literal(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)


def _comment(description: Any) -> Iterator[str]:
    return (f"// {line.strip()}" for line in str(description or "").splitlines() if line.strip())
