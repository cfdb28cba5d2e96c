"""A typed function's arguments: their JSON schema, and the conversion of a call's arguments, through pydantic."""

from __future__ import annotations

import functools
import inspect
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Annotated, Any

import pydantic
from pydantic.json_schema import GenerateJsonSchema

from agent_envs.errors import ToolUseError
from agent_envs.tools import complaints
from agent_envs.tools.json_schema import Converter, readable

_UNKNOWN = {"extra_forbidden", "unexpected_keyword_argument"}
_NO_OBJECT = {"model_type", "model_attributes_type", "dataclass_type", "dict_type"}


class _QuietSchema(GenerateJsonSchema):
    """Leaves out, without a warning, a default that JSON cannot write."""

    ignored_warning_kinds = frozenset({"skipped-choice", "non-serializable-default"})  # type: ignore[assignment]


def read_signature(
    function: Callable[..., Any], tool_name: str, notes: Mapping[str, str]
) -> tuple[dict[str, Any], Converter]:
    """The schema of a function's parameters, and what turns a call's arguments into theirs.

    Args:
        function: any callable with annotated parameters.
        tool_name: for the words of errors.
        notes: what the docstring says of each parameter.

    Raises:
        TypeError: a parameter that no schema can describe; the message names it.
    """
    names, fields = [], {}
    for position, parameter in enumerate(_parameters(function, tool_name)):
        names.append(parameter.name)
        # A field's own name is made up: a parameter may be called `schema` or `_x`, which pydantic's fields may not.
        fields[f"p{position}"] = _field_of(parameter, notes.get(parameter.name))
    model, schema = _make_model(tool_name, names, fields)
    schema.pop("additionalProperties", None)

    def convert(arguments: Mapping[str, Any]) -> dict[str, Any]:
        given = dict(arguments)
        try:
            made = model.model_validate(given)
        except pydantic.ValidationError as error:
            problems = list(_complaints(error.errors(include_url=False), given, names))
            raise ToolUseError(complaints.whole_complaint(tool_name, problems)) from error
        return {name: getattr(made, f"p{position}") for position, name in enumerate(names)}

    return {"type": "object", "properties": {}} | readable(schema), convert


def _parameters(function: Callable[..., Any], tool_name: str) -> Iterator[inspect.Parameter]:
    try:
        signature = inspect.signature(function, eval_str=True)
    except NameError as error:
        raise TypeError(
            f"an annotation of the tool {tool_name!r} cannot be read: {error}; types of a tool's parameters must be "
            "defined at a module's top level"
        ) from error
    bound = function.keywords if isinstance(function, functools.partial) else {}
    for parameter in signature.parameters.values():
        if parameter.name in bound:
            continue  # given already: none of the policy's business
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.POSITIONAL_ONLY):
            raise TypeError(
                f"the tool {tool_name!r} needs parameters that can be given by name, not {parameter} "
                f"({parameter.kind.description})"
            )
        if parameter.annotation is parameter.empty:
            method = " (make tools of bound methods: tool(thing.method))" if parameter.name in ("self", "cls") else ""
            raise TypeError(
                f"the tool {tool_name!r} needs a type for each parameter to make its schema; "
                f"{parameter.name!r} has none{method}"
            )
        yield parameter


def _field_of(parameter: inspect.Parameter, note: str | None) -> tuple[Any, Any]:
    base, metadata = parameter.annotation, ()
    if typing.get_origin(base) is Annotated:
        base, metadata = base.__origin__, base.__metadata__
    ours = pydantic.Field(alias=parameter.name, description=note)  # first, so that a Field of the function's own wins
    default = ... if parameter.default is parameter.empty else parameter.default
    return Annotated[(base, ours, *metadata)], default


def _make_model(
    tool_name: str, names: Sequence[str], fields: Mapping[str, Any]
) -> tuple[type[pydantic.BaseModel], dict[str, Any]]:
    try:
        return _model_of(f"{tool_name}_arguments", fields)
    except (pydantic.errors.PydanticUserError, TypeError) as error:
        for name, (field, parameter) in zip(names, fields.items(), strict=True):
            try:
                _model_of("one", {field: parameter})
            except (pydantic.errors.PydanticUserError, TypeError) as cause:
                reason = str(cause).partition("\n")[0].replace(f"`{field}`", f"`{name}`")
                raise TypeError(f"the tool {tool_name!r} cannot take its parameter {name!r}: {reason}") from error
        raise


def _model_of(name: str, fields: Mapping[str, Any]) -> tuple[type[pydantic.BaseModel], dict[str, Any]]:
    made = pydantic.create_model(name, __config__={"extra": "forbid"}, **fields)
    return made, made.model_json_schema(schema_generator=_QuietSchema)


def _complaints(problems: Sequence[Any], given: Mapping[str, Any], names: Sequence[str]) -> Iterator[str]:
    """One complaint per place; the branches of a union, each of which pydantic reports, are put together."""
    places: dict[str, list[Any]] = {}
    for problem in problems:
        places.setdefault(_place(problem, given), []).append(problem)
    for where, here in places.items():
        kinds = {problem["type"] for problem in here}
        if kinds == {"missing"}:
            yield complaints.missing(where)
        elif kinds <= _UNKNOWN:
            name = str(here[0]["loc"][-1])
            yield complaints.unknown(where, name, names if where == name else ())
        else:
            first, *others = dict.fromkeys(_expectation(problem) for problem in here)
            expected = " or ".join([first, *(other.removeprefix("should be ") for other in others)])
            yield complaints.unfit(where, expected, here[0]["input"])


def _expectation(problem: Mapping[str, Any]) -> str:
    if problem["type"] in _NO_OBJECT:
        return "should be an object"  # pydantic speaks of dictionaries and instances
    message = str(problem["msg"])
    return message.removeprefix("Value error, ").removeprefix("Assertion failed, ").replace("Input should", "should")


def _place(problem: Mapping[str, Any], given: Any) -> str:
    """Where in the arguments a problem lies, without the branches of unions that pydantic puts into its path."""
    path = []
    value = given
    for part in problem["loc"]:
        if _leads_on(value, part):
            value = value[part]
            path.append(str(part))
        elif problem["type"] == "missing" and part == problem["loc"][-1]:
            path.append(str(part))
    return ".".join(path) or "the arguments"


def _leads_on(value: Any, part: str | int) -> bool:
    if isinstance(value, Mapping):
        return part in value
    return isinstance(value, list) and isinstance(part, int) and part < len(value)
