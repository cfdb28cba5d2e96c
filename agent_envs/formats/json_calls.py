"""Reads and writes the JSON of calls, as one and the same for every format that has JSON in it.

What comes out is safe to keep: no lone surrogate, no NaN or infinity, no endless number, no deep nesting.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

from agent_envs.types import EventKind, ToolCall

MAX_DEPTH = 32  # of nested JSON: deeper values would break whatever handles them later
MAX_DIGITS = 4000  # of a whole number: Python refuses to write more than 4300


def read_call(text: str, expected: str, keys: Sequence[str] = ("arguments",)) -> ToolCall:
    """The call that a JSON object spells; one with an error where it spells none.

    Args:
        text: the object, and nothing else.
        expected: what a call looks like, for the error: ``expected {"name": ...}``.
        keys: what the arguments may be called.
    """
    try:
        value = read_json(text)
    except ValueError as error:
        return malformed(f"the call is not valid JSON ({error})", expected)
    return call_of(value, expected, keys)


def call_of(value: Any, expected: str, keys: Sequence[str] = ("arguments",), quoted: bool = False) -> ToolCall:
    """The call that a JSON value is; without arguments there are none. ``quoted`` takes them as JSON in a string too.

    The other arguments are those of ``read_call``.
    """
    if not isinstance(value, dict):
        return malformed(f"the call is a JSON {type(value).__name__}, not an object", expected)
    name = value.get("name")
    if not isinstance(name, str) or not name:
        return malformed('the call has no "name"', expected)
    key = next((key for key in keys if key in value), keys[0])
    arguments = value.get(key, {})
    if quoted and isinstance(arguments, str):
        try:
            arguments = read_json(arguments)
        except ValueError as error:
            return malformed(f'"{key}" is a string that is not valid JSON ({error})', expected)
    if not isinstance(arguments, dict):
        return malformed(f'"{key}" is not a JSON object', expected)
    return ToolCall(name=name, arguments=arguments)


def read_arguments(name: str, text: str, expected: str) -> ToolCall:
    """The call of a tool whose arguments stand by themselves, as a JSON object."""
    try:
        arguments = read_json(text)
    except ValueError as error:
        return malformed(f"the arguments of {name!r} are not valid JSON ({error})", expected)
    if not isinstance(arguments, dict):
        return malformed(f"the arguments of {name!r} are a JSON {type(arguments).__name__}, not an object", expected)
    return ToolCall(name=clean_text(name), arguments=arguments)


def malformed(error: str, expected: str) -> ToolCall:
    """A call that could not be read, and why, in words for the policy."""
    return ToolCall(name="", error=clean_text(f"{error}; {expected}"), kind=EventKind.MALFORMED_CALL)


def read_json(text: str) -> Any:
    """The value that a text spells.

    Raises:
        ValueError: it is not JSON, or not safe to keep.
    """
    try:
        return clean(DECODER.decode(text))
    except RecursionError:
        raise ValueError(f"nested deeper than {MAX_DEPTH} levels") from None


def clean(value: Any, depth: int = 0) -> Any:
    """A JSON value without what JSON can spell and a record cannot keep.

    Raises:
        ValueError: nested too deep, or a number that is none or out of range. Lone surrogates become "?".
    """
    if depth > MAX_DEPTH:
        raise ValueError(f"nested deeper than {MAX_DEPTH} levels")
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, dict):
        return {clean_text(key): clean(item, depth + 1) for key, item in value.items()}
    if isinstance(value, list):
        return [clean(item, depth + 1) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError("NaN is not JSON" if math.isnan(value) else "a number is out of range")
    return value


def clean_text(text: str) -> str:
    """The text with its lone surrogates, which UTF-8 cannot spell, as "?"."""
    return text.encode("utf-8", "replace").decode("utf-8")


def write_json(value: Mapping[str, Any], marks: Sequence[str]) -> str:
    """A value on one line, in which no string spells one of the format's marks: JSON can write "<" as an escape."""
    text = json.dumps(value, ensure_ascii=False)
    return text.replace("<", "\\u003c") if any(mark in text for mark in marks) else text


def _read_int(digits: str) -> int | float:
    return int(digits) if len(digits) <= MAX_DIGITS else math.inf  # which ``clean`` refuses


DECODER = json.JSONDecoder(parse_int=_read_int, parse_constant=float)
