"""JSON schemas: made readable for small models, and used to validate arguments."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias

from agent_envs.errors import ConfigError, ToolUseError
from agent_envs.tools import complaints

Converter: TypeAlias = Callable[[Mapping[str, Any]], dict[str, Any]]

_SCHEMA_MAPS = ("properties", "patternProperties", "dependentSchemas")  # name -> schema
_SCHEMA_LISTS = ("anyOf", "oneOf", "allOf", "prefixItems")
_SCHEMAS = ("items", "additionalProperties", "not", "contains", "propertyNames", "if", "then", "else")
_NOISE = ("title", "discriminator", "$schema", "$defs", "definitions")
_DEFINITIONS = ("#/$defs/", "#/definitions/")

MAX_REFERENCES = 500  # that are written out in one schema


def readable(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The schema with its definitions written where they are used, and without titles.

    A definition that contains itself stays apart, under ``$defs``; all do where writing them out would be too long.
    """
    definitions = {
        f"{prefix}{name}": definition
        for prefix in _DEFINITIONS
        for name, definition in schema.get(prefix.split("/")[1], {}).items()
    }
    if any(reference not in definitions for reference in _references(schema)):
        return dict(schema)  # it points into its own parts, which must then stay where they are
    apart = {reference for reference in definitions if reference in _reachable(reference, definitions)}
    if _written_out(schema, definitions, apart) > MAX_REFERENCES:
        apart = set(definitions)
    inlined: dict[str, Any] = _inline(schema, definitions, apart)
    if apart:
        inlined["$defs"] = {
            reference.rpartition("/")[2]: _inline(definitions[reference], definitions, apart)
            for reference in sorted(apart)
        }
    return inlined


def schema_converter(tool_name: str, parameters: Mapping[str, Any]) -> Converter:
    """Checks arguments against a JSON schema and gives them back as they came.

    Raises:
        ConfigError: the schema is not a valid one, or refers to something outside itself.
    """
    import jsonschema  # a tenth of a second, for schema tools only
    import referencing
    import referencing.jsonschema

    schema = dict(parameters)
    make = jsonschema.validators.validator_for(schema, default=jsonschema.Draft202012Validator)
    try:
        make.check_schema(schema)
    except jsonschema.SchemaError as error:
        where = error.json_path
        raise ConfigError(
            f"the parameters of the tool {tool_name!r} are no JSON schema: {where}: {error.message}"
        ) from error
    resource = referencing.jsonschema.DRAFT202012.create_resource(schema)
    registry = referencing.Registry().with_resource("", resource)  # knows this schema alone and never fetches another
    for reference in _references(schema):
        try:
            registry.resolver().lookup(reference)
        except referencing.exceptions.Unresolvable as error:
            raise ConfigError(
                f"the parameters of the tool {tool_name!r} refer to {reference!r}, which is not in their schema"
            ) from error
    validator = make(schema, registry=registry)

    def convert(arguments: Mapping[str, Any]) -> dict[str, Any]:
        found = sorted(validator.iter_errors(dict(arguments)), key=lambda error: error.json_path)
        if found:
            problems = dict.fromkeys(complaint for error in found for complaint in _complaints(error))
            raise ToolUseError(complaints.whole_complaint(tool_name, list(problems)))
        return dict(arguments)

    return convert


def _complaints(error: Any) -> Iterator[str]:
    """A jsonschema error in words."""
    where = ".".join(str(part) for part in error.absolute_path)
    prefix = f"{where}." if where else ""
    if error.validator == "required":
        yield from (complaints.missing(prefix + name) for name in error.validator_value if name not in error.instance)
        return
    if error.validator == "additionalProperties" and error.validator_value is False:
        known = error.schema.get("properties", {})
        patterns = error.schema.get("patternProperties", {})
        for name in error.instance:
            if name not in known and not any(re.search(pattern, name) for pattern in patterns):
                yield complaints.unknown(prefix + name, name, known)
        return
    yield complaints.unfit(where or "the arguments", _expectation(error), error.instance)


def _expectation(error: Any) -> str:
    wanted = error.validator_value
    if error.validator == "type":
        return f"expected {wanted if isinstance(wanted, str) else ' or '.join(wanted)}"
    if error.validator in ("enum", "const"):
        return f"expected {'one of ' if error.validator == 'enum' else ''}{complaints.show(wanted)}"
    if error.validator in ("anyOf", "oneOf") and error.context:
        return " or ".join(dict.fromkeys(_expectation(inner) for inner in error.context))
    return f"does not fit {error.validator} {complaints.show(wanted)}"


def _inline(schema: Any, definitions: Mapping[str, Any], apart: set[str]) -> Any:
    if not isinstance(schema, Mapping):  # true and false are schemas too
        return schema
    reference = schema.get("$ref")
    if isinstance(reference, str) and reference in definitions and reference not in apart:
        beside = {key: value for key, value in schema.items() if key != "$ref"}
        return _inline({**definitions[reference], **beside}, definitions, apart)
    clean: dict[str, Any] = {}
    for key, value in schema.items():
        if key in _NOISE:
            continue
        if key in _SCHEMA_MAPS and isinstance(value, Mapping):
            clean[key] = {name: _inline(inner, definitions, apart) for name, inner in value.items()}
        elif key in _SCHEMA_LISTS and isinstance(value, list):
            clean[key] = [_inline(inner, definitions, apart) for inner in value]
        elif key in _SCHEMAS:
            clean[key] = _inline(value, definitions, apart)
        else:
            clean[key] = f"#/$defs/{value.rpartition('/')[2]}" if key == "$ref" and value in apart else value
    return clean


def _written_out(schema: Any, definitions: Mapping[str, Any], apart: set[str]) -> int:
    """How many definitions would be written out; they may multiply, each holding two of the next."""

    @functools.cache
    def count(reference: str) -> int:
        return 0 if reference in apart else 1 + sum(map(count, _references(definitions[reference])))

    return sum(count(reference) for reference in _references(_without_definitions(schema)))


def _without_definitions(schema: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in schema.items() if key not in ("$defs", "definitions")}


def _reachable(reference: str, definitions: Mapping[str, Any]) -> set[str]:
    """The definitions that one leads to, in one step or more."""
    found: set[str] = set()
    open_ends = [reference]
    while open_ends:
        for further in _references(definitions[open_ends.pop()]):
            if further in definitions and further not in found:
                found.add(further)
                open_ends.append(further)
    return found


def _references(node: Any) -> Iterator[str]:
    if isinstance(node, Mapping):
        if isinstance(node.get("$ref"), str):
            yield node["$ref"]
        for inner in node.values():
            yield from _references(inner)
    elif isinstance(node, list):
        for inner in node:
            yield from _references(inner)
