"""The calls that an item's answer asks for, as a policy would write them."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from typing import Any

from agent_envs.bfcl.records import BfclItem
from agent_envs.bfcl.schemas import tool_name
from agent_envs.types import ToolCall


def right_calls(item: BfclItem) -> tuple[ToolCall, ...]:
    """The calls of a single-turn test, with the first allowed value of each argument."""
    return tuple(
        ToolCall(tool_name(name), _first_values(allowed)) for call in item.answer for name, allowed in call.items()
    )


def right_conversation(item: BfclItem) -> tuple[tuple[ToolCall, ...], ...]:
    """The calls of each user turn of a multi-turn test."""
    order = {function["name"]: tuple(function["parameters"]["properties"]) for function in item.functions}
    return tuple(tuple(_parsed(source, order) for source in turn) for turn in item.answer)


def _first_values(allowed: Mapping[str, Sequence[Any]]) -> dict[str, Any]:
    """The first allowed value of each; "" among them says that the argument may be left out."""
    values = {name: [value for value in choices if value != ""] for name, choices in allowed.items()}
    return {name: _plain_value(choices[0]) for name, choices in values.items() if choices}


def _plain_value(value: Any) -> Any:
    """The value; in an object each entry lists what it may be."""
    if isinstance(value, dict) and all(isinstance(choices, list) for choices in value.values()):
        return _first_values(value)
    if isinstance(value, list):
        return [_plain_value(one) for one in value]
    return value


def _parsed(source: str, order: Mapping[str, Sequence[str]]) -> ToolCall:
    """A call such as ``sort('a.txt')``: positional arguments get the names of the described parameters."""
    call = ast.parse(source.strip(), mode="eval").body
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name):
        raise ValueError(f"expected the call of a function, found {source!r}")
    name = call.func.id
    arguments = {key: ast.literal_eval(value) for key, value in zip(order[name], call.args, strict=False)}
    arguments |= {str(keyword.arg): ast.literal_eval(keyword.value) for keyword in call.keywords}
    return ToolCall(name, arguments)
