"""Finds calls that are written as JSON in the middle of a text, with no tags around them."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

from agent_envs.formats.json_calls import DECODER, MAX_DEPTH, call_of, clean, malformed
from agent_envs.types import ToolCall

# Of broken JSON in one text: each piece may cost a look at the whole text, so what has more than these is not searched.
_MAX_BROKEN = 32

_START = re.compile(r"(?:\[\s*)?\{\s*\"")
_CALL_START = re.compile(r"(?:\[\s*)?\{\s*\"(?:name|arguments|parameters)\"")


def find_calls(text: str, expected: str, keys: Sequence[str], quoted: bool = False) -> tuple[ToolCall, ...]:
    """The objects that have a name and arguments, and arrays of them; any other JSON is an example, or data.

    Broken JSON is a malformed call if it begins as one does, and nothing behind it is read: what it was meant to hold
    cannot be told from what follows.

    Args:
        text: outside thoughts and answers.
        expected: what a call looks like, for errors.
        keys: what the arguments may be called.
        quoted: takes arguments as JSON in a string too.
    """
    calls: list[ToolCall] = []
    at = broken = 0
    while broken < _MAX_BROKEN and (start := _START.search(text, at)) is not None:
        at = start.start() + 1
        try:
            value, at = DECODER.raw_decode(text, start.start())
            value = clean(value)
        except (ValueError, RecursionError) as error:
            if _CALL_START.match(text, start.start()):
                return (*calls, malformed(f"the call is not valid JSON ({_reason(error)})", expected))
            if isinstance(error, json.JSONDecodeError):
                at = max(at, error.pos)  # what was read so far is part of the broken piece
            broken += 1
            continue
        items = value if isinstance(value, list) else [value]
        if any(_is_call(item, keys) for item in items):
            calls += [call_of(item, expected, keys, quoted) for item in items]
    return tuple(calls)


def _is_call(value: Any, keys: Sequence[str]) -> bool:
    return isinstance(value, dict) and isinstance(value.get("name"), str) and any(key in value for key in keys)


def _reason(error: Exception) -> str:
    return f"nested deeper than {MAX_DEPTH} levels" if isinstance(error, RecursionError) else str(error)
