"""The Hermes format, which Qwen and many others are trained on: JSON between ``<tool_call>`` tags.

A turn is any text with ``<think>...</think>`` parts, then either calls, each
``<tool_call>{"name": ..., "arguments": {...}}</tool_call>``, or ``<answer>...</answer>``. What stands in a thought,
closed or not, is never acted on. An answer ends the episode; calls beside it are not run. Answer
tags within a JSON string of a call are part of an argument.

``hermes-lenient`` also takes what models write that were not trained on the tags: where a turn has none of them, bare
JSON objects or arrays of calls (so those in a fence too) that have a name and arguments; everywhere "parameters" for
"arguments", and arguments as JSON in a string.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from agent_envs.formats.json_calls import call_of, malformed, read_call, read_json, write_json
from agent_envs.formats.loose_json import find_calls
from agent_envs.formats.tags import ANSWER_TAGS, THINK_TAGS, AnswerTags, blocks, without_answers
from agent_envs.types import ToolCall

_EXPECTED = 'expected <tool_call>{"name": "...", "arguments": {...}}</tool_call>'
_STRING = re.compile(r'"(?:[^"\\]|\\.)*+(?:"|\\?\Z)', re.DOTALL)  # of JSON, or the beginning of one at the end
_LENIENT_KEYS = ("arguments", "parameters")


class HermesFormat(AnswerTags):
    """JSON calls in ``<tool_call>`` tags, answers in ``<answer>`` tags."""

    name = "hermes"
    tags: tuple[str, ...] = (*THINK_TAGS, "<tool_call>", "</tool_call>", *ANSWER_TAGS)
    template_marks: tuple[str, ...] = ("<tool_call>", "<tool_response>")

    def read_calls(self, spoken: str) -> tuple[ToolCall, ...]:
        """What stands between ``<tool_call>`` tags."""
        return tuple(
            _stray() if block is None else read_call(block, _EXPECTED) for block in blocks(spoken, "tool_call")
        )

    def without_arguments(self, spoken: str) -> str:
        """What was said, the answer tags within a call's JSON strings made none."""
        before, *rest = spoken.split("<tool_call>")
        return "<tool_call>".join([before, *map(_without_quoted_answers, rest)])

    def describe_tools(self, schemas: Sequence[Mapping[str, Any]]) -> str:
        """The tools as JSON schemas and how to call them."""
        return describe_tools(schemas)

    def wrap_result(self, content: str) -> str:
        """The result between ``<tool_response>`` tags."""
        return f"<tool_response>\n{content}\n</tool_response>"

    def write_calls(self, calls: Sequence[ToolCall]) -> str:
        """Each call on three lines, as Qwen's chat template writes it."""
        bodies = [write_json({"name": call.name, "arguments": dict(call.arguments)}, self.tags) for call in calls]
        return "\n".join(f"<tool_call>\n{body}\n</tool_call>" for body in bodies)


class LenientHermesFormat(HermesFormat):
    """Hermes as models write it that were not trained on it; see the module's docstring."""

    name = "hermes-lenient"

    def read_calls(self, spoken: str) -> tuple[ToolCall, ...]:
        """What stands between tags; where there are none, JSON that is a call wherever it stands."""
        found = blocks(spoken, "tool_call")
        if not found:
            return find_calls(without_answers(spoken), _EXPECTED, _LENIENT_KEYS, quoted=True)
        return tuple(_stray() if block is None else _read_loosely(block) for block in found)


def _read_loosely(block: str) -> ToolCall:
    try:
        return call_of(read_json(block), _EXPECTED, _LENIENT_KEYS, quoted=True)
    except ValueError:
        return read_call(block, _EXPECTED)  # which says what is wrong


def _without_quoted_answers(text: str) -> str:
    """A call's text, and what follows it, with other words for the answer tags within the call's strings."""
    call, end, rest = text.partition("</tool_call>")
    return _STRING.sub(lambda string: string.group().replace("answer>", "answer_>"), call) + end + rest


def _stray() -> ToolCall:
    return malformed("a <tool_call> or </tool_call> tag has no partner", _EXPECTED)


def describe_tools(schemas: Sequence[Mapping[str, Any]]) -> str:
    """A section for the system prompt that lists tools and says how to call them."""
    lines = "\n".join(json.dumps(schema, ensure_ascii=False) for schema in schemas)
    return (
        "You can call these tools, described by JSON schemas, one a line:\n"
        f"<tools>\n{lines}\n</tools>\n"
        "To call a tool, write its name and arguments as JSON between tags, then end your turn:\n"
        '<tool_call>\n{"name": "<tool name>", "arguments": {<arguments>}}\n</tool_call>\n'
        "What it finds comes back between <tool_response> and </tool_response>."
    )
