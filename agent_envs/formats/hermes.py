"""The Hermes format, which Qwen and many others are trained on: JSON between ``<tool_call>`` tags.

A turn is any text with ``<think>...</think>`` parts, then either calls, each
``<tool_call>{"name": ..., "arguments": {...}}</tool_call>``, or ``<answer>...</answer>``. What stands in a thought,
closed or not, is never acted on. An answer ends the episode; calls beside it are not run.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from agent_envs.formats.base import ParsedTurn
from agent_envs.types import EventKind, Message, ToolCall

_CALL_TAGS = re.compile(r"<tool_call>|</tool_call>")
_ANSWER = re.compile(r"<answer>((?:(?!<answer>).)*?)</answer>", re.DOTALL)
_MAX_DEPTH = 32  # of nested JSON: deeper values would break whatever handles them later
_EXPECTED = 'expected <tool_call>{"name": "...", "arguments": {...}}</tool_call>'


class HermesFormat:
    """JSON calls in ``<tool_call>`` tags, answers in ``<answer>`` tags."""

    name = "hermes"
    answer_form = "between <answer> and </answer>"
    answer_example = "<answer>your answer</answer>"
    tags: tuple[str, ...] = ("<think>", "</think>", "<tool_call>", "</tool_call>", "<answer>", "</answer>")
    closing_tags: tuple[str, ...] = ("</answer>",)
    template_marks: tuple[str, ...] = ("<tool_call>", "<tool_response>")

    def parse(self, text: str) -> ParsedTurn:
        """Reads one turn; see the module's docstring."""
        spoken = _without_thoughts(text)
        answers = _ANSWER.findall(spoken)
        calls = tuple(_read_call(block) for block in _call_blocks(spoken))
        if not answers:
            return ParsedTurn(calls, None, answer_well_formed=False)
        answer = answers[-1].strip()
        lone = spoken.count("<answer>") == 1 and spoken.count("</answer>") == 1
        return ParsedTurn(calls, answer, answer_well_formed=lone and bool(answer))

    def closes_turn(self, text: str) -> bool:
        """True where the answer that was just closed is no part of a thought."""
        return _ANSWER.search(_without_thoughts(text)) is not None

    def opening(self, prompt: str) -> str:
        """The opening tag of a thought, where the generation prompt ends with it."""
        return "<think>" if prompt.rstrip().endswith("<think>") else ""

    def describe_tools(self, schemas: Sequence[Mapping[str, Any]]) -> str:
        """The tools as JSON schemas and how to call them."""
        return describe_tools(schemas)

    def wrap_result(self, content: str) -> str:
        """The result between ``<tool_response>`` tags."""
        return f"<tool_response>\n{content}\n</tool_response>"

    def refuses(self, schemas: Sequence[Mapping[str, Any]]) -> str | None:
        """None: JSON can spell every call."""
        return None

    def continuation(self, messages: Sequence[Message]) -> list[str] | None:
        """None: results come in messages of their own."""
        return None

    def write_calls(self, calls: Sequence[ToolCall]) -> str:
        """Each call on three lines, as Qwen's chat template writes it."""
        return "\n".join(_write_call(call) for call in calls)

    def write_answer(self, answer: str) -> str:
        """The answer between its tags."""
        return f"<answer>{answer}</answer>"


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


def _write_call(call: ToolCall) -> str:
    body = json.dumps({"name": call.name, "arguments": dict(call.arguments)}, ensure_ascii=False)
    return f"<tool_call>\n{body}\n</tool_call>"


def _without_thoughts(text: str) -> str:
    """What is said outside thoughts. A thought runs from its tag to the next closing one, or to the end.

    A closing tag without an opening one closes what stands before it: some policies open their thought unseen.
    """
    spoken: list[str] = []
    for piece in re.split(r"(</think>)", text):
        if piece != "</think>":
            spoken.append(piece)
        elif "<think>" not in spoken[-1]:
            spoken = []
    return "".join(piece.partition("<think>")[0] for piece in spoken)


def _call_blocks(text: str) -> list[str | None]:
    """The text of each call; None for a tag that has no partner."""
    blocks: list[str | None] = []
    opened: int | None = None
    for tag in _CALL_TAGS.finditer(text):
        if tag.group() == "<tool_call>":
            if opened is not None:
                blocks.append(None)
            opened = tag.end()
        else:
            blocks.append(None if opened is None else text[opened : tag.start()])
            opened = None
    if opened is not None:
        blocks.append(None)
    return blocks


def _read_call(block: str | None) -> ToolCall:
    if block is None:
        return _malformed(f"a <tool_call> or </tool_call> tag has no partner; {_EXPECTED}")
    try:
        value = _clean(json.loads(block, parse_constant=_refuse_constant))
    except (ValueError, RecursionError) as error:
        return _malformed(f"the call is not valid JSON ({error}); {_EXPECTED}")
    if not isinstance(value, dict):
        return _malformed(f"the call is a JSON {type(value).__name__}, not an object; {_EXPECTED}")
    name, arguments = value.get("name"), value.get("arguments", {})
    if not isinstance(name, str) or not name:
        return _malformed(f'the call has no "name"; {_EXPECTED}')
    if not isinstance(arguments, dict):
        return _malformed(f'"arguments" is not a JSON object; {_EXPECTED}')
    return ToolCall(name=name, arguments=arguments)


def _malformed(error: str) -> ToolCall:
    return ToolCall(name="", error=_clean(error), kind=EventKind.MALFORMED_CALL)


def _refuse_constant(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")


def _clean(value: Any, depth: int = 0) -> Any:
    """Replaces lone surrogates, which JSON can spell and UTF-8 cannot; refuses deep nesting and endless numbers."""
    if depth > _MAX_DEPTH:
        raise ValueError(f"nested deeper than {_MAX_DEPTH} levels")
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode("utf-8")
    if isinstance(value, dict):
        return {_clean(key): _clean(item, depth + 1) for key, item in value.items()}
    if isinstance(value, list):
        return [_clean(item, depth + 1) for item in value]
    if isinstance(value, float) and not math.isfinite(value):  # 1e999 is JSON, but no record could be written with it
        raise ValueError("a number is out of range")
    return value
