"""Tools: typed Python functions that a policy can call.

A tool's JSON schema comes from the function's signature and docstring; arguments are validated with pydantic before
the function sees them. A function that wants to tell its caller of a mistake raises ``ToolUseError``; any other
exception is a failure of the infrastructure.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias, cast

import pydantic

from agent_envs.errors import ToolUseError

ToolFunction: TypeAlias = Callable[..., "str | ToolOutput"]
BatchFunction: TypeAlias = Callable[[Sequence[Mapping[str, Any]]], "Sequence[str | ToolOutput]"]


@dataclass(frozen=True, slots=True)
class ToolOutput:
    """A tool's text for the policy, and plain data for graders and logs that the policy never reads."""

    content: str
    data: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, eq=False)
class Tool:
    """A tool, made with ``tool``. Two tools are equal only if they are the same one.

    Attributes:
        name: what the policy calls it.
        description: what it does, from the docstring.
        parameters: a JSON schema of its arguments.
        function: takes the validated arguments by keyword.
        batch: takes the arguments of many calls at once, or None.
        timeout_s: a call that runs longer is a failure; None runs it without a deadline, in the caller's thread.
    """

    name: str
    description: str
    parameters: Mapping[str, Any]
    function: ToolFunction
    arguments_model: type[pydantic.BaseModel]
    batch: BatchFunction | None = None
    timeout_s: float | None = 30.0

    @property
    def schema(self) -> dict[str, Any]:
        """The tool as chat templates and OpenAI-style interfaces expect it."""
        function = {"name": self.name, "description": self.description, "parameters": dict(self.parameters)}
        return {"type": "function", "function": function}

    def validate(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments converted to the function's types, defaults filled in.

        Raises:
            ToolUseError: they do not fit; the message says which and why.
        """
        try:
            model = self.arguments_model.model_validate(dict(arguments))
        except pydantic.ValidationError as error:
            problems = "; ".join(_describe_problem(problem) for problem in error.errors(include_url=False))
            raise ToolUseError(f"the arguments of {self.name} are wrong: {problems}") from error
        return {name: getattr(model, name) for name in type(model).model_fields}


def tool(
    function: ToolFunction,
    *,
    name: str | None = None,
    batch: BatchFunction | None = None,
    timeout_s: float | None = 30.0,
) -> Tool:
    """Makes a tool of a function with annotated parameters and a Google-style docstring.

    Args:
        function: gives text, or a ``ToolOutput``. The docstring's first paragraph describes the tool, its ``Args:``
            section the parameters.
        name: the function's own name by default.
        batch: runs many calls at once; gives one output per call, in order.
        timeout_s: the deadline of one call (or of one batch) in seconds.

    Raises:
        TypeError: a parameter has no annotation, or is ``*args`` or ``**kwargs``.
    """
    description, notes = _read_docstring(function)
    fields: dict[str, Any] = {}
    for parameter in inspect.signature(function, eval_str=True).parameters.values():
        fields[parameter.name] = _field_of(function, parameter, notes.get(parameter.name))
    model = cast(
        "type[pydantic.BaseModel]",
        pydantic.create_model(f"{function.__name__}_arguments", __config__={"extra": "forbid"}, **fields),
    )
    schema = _without_titles(model.model_json_schema())
    schema.pop("additionalProperties", None)
    return Tool(name or function.__name__, description, schema, function, model, batch, timeout_s)


def _field_of(function: ToolFunction, parameter: inspect.Parameter, note: str | None) -> tuple[Any, Any]:
    if parameter.annotation is parameter.empty or parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
        raise TypeError(
            f"the tool {function.__name__} needs a type for each parameter (and no *args or **kwargs) to make its "
            f"schema; {parameter} has none"
        )
    default = ... if parameter.default is parameter.empty else parameter.default
    return parameter.annotation, pydantic.Field(default, description=note)


def _read_docstring(function: ToolFunction) -> tuple[str, dict[str, str]]:
    """The first paragraph, and the notes of the ``Args:`` section by parameter."""
    doc = inspect.getdoc(function) or ""
    description = " ".join(doc.split("\n\n")[0].split())
    notes: dict[str, str] = {}
    current: str | None = None
    for line in doc.partition("Args:")[2].splitlines():
        if line.strip() and not line.startswith(" "):
            break
        head, colon, rest = line.strip().partition(":")
        if colon and line.startswith("    ") and not line.startswith("     "):
            current = head.split(" ")[0]
            notes[current] = rest.strip()
        elif current is not None and line.strip():
            notes[current] = f"{notes[current]} {line.strip()}"
    return description, notes


def _describe_problem(problem: Mapping[str, Any]) -> str:
    where = ".".join(str(part) for part in problem["loc"]) or "the arguments"
    return f"{where}: {problem['msg'].lower()}"


def _without_titles(schema: dict[str, Any]) -> dict[str, Any]:
    """Drops the titles that pydantic adds, which cost tokens and say nothing."""
    properties = schema.get("properties", {})
    cleaned = {name: {key: item for key, item in value.items() if key != "title"} for name, value in properties.items()}
    return {key: item for key, item in schema.items() if key not in ("title", "properties")} | {"properties": cleaned}
