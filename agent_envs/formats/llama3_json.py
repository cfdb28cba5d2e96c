"""The format of Llama 3's JSON calls: ``{"name": ..., "parameters": {...}}``, separated by ";".

``<|python_tag|>`` may stand before them. The end-of-turn token ends the turn, or ``<|eom_id|>``. A turn that begins
with a brace or the tag is meant as calls; in other turns only JSON that has a name and parameters is one, and text is
plain. The answer stands in ``<answer>`` tags, outside which calls are read; nothing in a thought is acted on.

Source: Meta's model card of Llama 3.1, "JSON based tool calling".
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from agent_envs.formats.json_calls import read_call, write_json
from agent_envs.formats.loose_json import find_calls
from agent_envs.formats.tags import ANSWER_TAGS, THINK_TAGS, AnswerTags, without_answers
from agent_envs.types import ToolCall

_PYTHON_TAG = "<|python_tag|>"
_END_OF_MESSAGE = "<|eom_id|>"
_EXPECTED = 'expected {"name": "...", "parameters": {...}}; several calls are separated by ";"'
_KEYS = ("parameters", "arguments")


class Llama3JsonFormat(AnswerTags):
    """Bare JSON calls, answers in ``<answer>`` tags."""

    name = "llama3-json"
    tags: tuple[str, ...] = (*THINK_TAGS, _PYTHON_TAG, _END_OF_MESSAGE, *ANSWER_TAGS)
    closing_tags: tuple[str, ...] = (_END_OF_MESSAGE, "</answer>")
    end_tokens: tuple[str, ...] = ("<|eot_id|>", _END_OF_MESSAGE)
    template_marks: tuple[str, ...] = ("ipython<|end_header_id|>",)

    def read_calls(self, spoken: str) -> tuple[ToolCall, ...]:
        """The JSON of calls; see the module's docstring."""
        body, tag, behind = without_answers(spoken.partition(_END_OF_MESSAGE)[0]).partition(_PYTHON_TAG)
        if tag:
            body = behind
        calls = find_calls(body, _EXPECTED, _KEYS)
        if not calls and (tag or body.lstrip().startswith("{")):
            return (read_call(body, _EXPECTED, _KEYS),)
        return calls

    def closes_turn(self, text: str) -> bool:
        """True for the token that ends a message, and where an answer is closed that is no part of a thought."""
        return _END_OF_MESSAGE in text or super().closes_turn(text)

    def describe_tools(self, schemas: Sequence[Mapping[str, Any]]) -> str:
        """The tools as JSON schemas and how to call them."""
        lines = "\n".join(json.dumps(schema, ensure_ascii=False) for schema in schemas)
        return (
            f"You can call these functions, described by JSON schemas, one a line:\n{lines}\n"
            "To call one, let your whole turn be JSON with its name and the values of its parameters:\n"
            '{"name": "<function name>", "parameters": {<parameters>}}\n'
            'Several calls are separated by ";". What they find comes back between <tool_response> and '
            "</tool_response>."
        )

    def wrap_result(self, content: str) -> str:
        """The result between ``<tool_response>`` tags."""
        return f"<tool_response>\n{content}\n</tool_response>"

    def write_calls(self, calls: Sequence[ToolCall]) -> str:
        """The calls on one line."""
        return "; ".join(
            write_json({"name": call.name, "parameters": dict(call.arguments)}, self.tags) for call in calls
        )
