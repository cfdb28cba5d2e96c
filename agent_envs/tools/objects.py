"""Tools that are an object's methods: state of one episode, such as a basket, that a fork copies."""

from __future__ import annotations

import copy
import functools
import inspect
import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pydantic_core import PydanticSerializationError, to_jsonable_python

from agent_envs.errors import ConfigError
from agent_envs.tools.base import Tool, ToolOutput, TurnLock, tool


class ObjectTools:
    """The public methods of an object as the tools of one episode. Their calls run one after another, as written.

    A method ``close``, if there is one, is no tool: it is called when the episode ends.
    """

    def __init__(self, instance: Any, templates: tuple[Tool, ...]) -> None:
        """Binds the tools that ``method_tools`` read from an object of the same class."""
        self._instance = instance
        self._templates = templates
        self.tools = tuple(_bound(template, getattr(instance, template.name)) for template in templates)

    @property
    def instance(self) -> Any:
        """The object."""
        return self._instance

    def fork(self) -> ObjectTools:
        """The tools of a deep copy of the object."""
        return ObjectTools(copy.deepcopy(self._instance), self._templates)

    def close(self) -> None:
        """Tells the object, where it has a method for that."""
        close = getattr(self._instance, "close", None)
        if callable(close):
            close()


def method_tools(instance: Any) -> tuple[Tool, ...]:
    """A tool for each public method of the object's class, in the order of definition.

    Raises:
        ConfigError: there is none.
        TypeError: a method has a parameter that no schema can describe.
    """
    kind = type(instance)
    names = dict.fromkeys(name for base in reversed(kind.__mro__) for name in vars(base))
    methods = [
        getattr(instance, name)
        for name in names
        if not name.startswith("_") and name != "close" and _is_method(inspect.getattr_static(kind, name))
    ]
    if not methods:
        raise ConfigError(
            f"expected an object whose public methods are tools; {kind.__name__} has no public method. Give tools "
            "without state as a list of functions; for state, give a class, or a function of the item that makes an "
            "object"
        )
    return tuple(replace(text_tool(method), concurrent=False) for method in methods)


def text_tool(function: Any) -> Tool:
    """A tool of a typed function that may give any plain value; what is no text is written as JSON."""
    made = function if isinstance(function, Tool) else tool(function)
    return _bound(made, made.function) if made.batch is None else made


def _bound(template: Tool, function: Any) -> Tool:
    return replace(template, function=functools.partial(_run, function), lock=TurnLock())


def _run(function: Any, /, **arguments: Any) -> Any:
    output = function(**arguments)
    return _awaited(output) if inspect.isawaitable(output) else _as_text(output)


async def _awaited(output: Any) -> str | ToolOutput:
    return _as_text(await output)


def _as_text(output: Any) -> str | ToolOutput:
    if isinstance(output, str | ToolOutput):
        return output
    return json.dumps(output, ensure_ascii=False, default=_plain)


def _plain(value: Any) -> Any:
    """What JSON can write of a value that it doesn't know; nothing that depends on where the value lies in memory."""
    if isinstance(value, Mapping):
        return dict(value)
    if hasattr(value, "tolist"):  # numpy's arrays and numbers
        return value.tolist()
    try:
        return to_jsonable_python(value)  # models, dataclasses, enums, dates, sets
    except PydanticSerializationError as error:
        raise TypeError(
            f"a tool gave {type(value).__name__}, which JSON cannot write; return text, numbers, lists, mappings, "
            "dataclasses or pydantic models"
        ) from error


def _is_method(attribute: Any) -> bool:
    return inspect.isfunction(attribute) or isinstance(attribute, staticmethod | classmethod)
