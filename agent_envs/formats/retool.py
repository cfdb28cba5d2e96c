r"""The ReTool format: Python in ``<code>``, its output in ``<interpreter>``, a ``\boxed{}`` answer in ``<answer>``.

``</code>`` ends the turn; the output stands right behind it and the same message goes on. There is one tool that can
be called, ``python(code)``. The code stands in a fence, or bare; it holds none of the format's own tags. The answer is
what the last balanced ``\boxed{}`` in the answer tags holds, or all of it where there is none; with a second box it is
not well formed.

Source: Feng et al. 2025, "ReTool" (arXiv 2504.11536), section 2.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from agent_envs.formats.base import ParsedTurn, glue_of
from agent_envs.formats.json_calls import clean_text, malformed
from agent_envs.formats.schemas import description_of, names_of, takes_only
from agent_envs.formats.tags import ANSWER_TAGS, THINK_TAGS, AnswerTags, blocks, has_block, without_thoughts
from agent_envs.types import Message, ToolCall

_EXPECTED = "expected <code>\n```python\nyour code\n```\n</code>"
_BRACES = re.compile(r"\\boxed\{|\\[{}]|[{}]")
_FENCE = re.compile(r"```[ \t]*(?:python3?|py)?[ \t]*\n?")


class ReToolFormat(AnswerTags):
    r"""Python in ``<code>`` tags, which end the turn; ``\boxed{}`` answers in ``<answer>`` tags."""

    name = "retool"
    answer_form = r"in \boxed{} between <answer> and </answer>"
    answer_example = r"<answer>\boxed{your answer}</answer>"
    tags: tuple[str, ...] = (*THINK_TAGS, "<code>", "</code>", "<interpreter>", "</interpreter>", *ANSWER_TAGS)
    closing_tags: tuple[str, ...] = ("</code>", "</answer>")
    template_marks: tuple[str, ...] = ()  # no chat template knows it

    def parse(self, text: str) -> ParsedTurn:
        """Reads one turn; see the module's docstring."""
        parsed = super().parse(text)
        boxed = None if parsed.answer is None else last_boxed(parsed.answer)
        if boxed is None:
            return parsed
        alone = str(parsed.answer).count("\\boxed") == 1
        return ParsedTurn(parsed.calls, boxed, parsed.answer_well_formed and bool(boxed) and alone)

    def read_calls(self, spoken: str) -> tuple[ToolCall, ...]:
        """What stands between ``<code>`` tags."""
        return tuple(_read_code(block) for block in blocks(spoken, "code"))

    def closes_turn(self, text: str) -> bool:
        """True where code or an answer is closed that is no part of a thought."""
        spoken = without_thoughts(text)
        return has_block(spoken, "answer") or has_block(spoken, "code")

    def describe_tools(self, schemas: Sequence[Mapping[str, Any]]) -> str:
        """How to run Python; the tool's own description follows."""
        if not schemas:
            return ""
        about = description_of(schemas, "python")
        return (
            "To run Python, write it like this:\n<code>\n```python\nprint(6 * 7)\n```\n</code>\n"
            "What it prints follows at once between <interpreter> and </interpreter>; then go on. You can run code as "
            "often as you need."
        ) + (f"\nThe interpreter: {about}" if about else "")

    def wrap_result(self, content: str) -> str:
        """The output between ``<interpreter>`` tags."""
        return f"<interpreter>\n{content}\n</interpreter>"

    def refuses(self, schemas: Sequence[Mapping[str, Any]]) -> str | None:
        """Tools without a ``python(code)`` among them."""
        if not schemas or any(takes_only(schema, "python", "code") for schema in schemas):
            return None
        return (
            f"it can call one tool, python(code), and the tools are {', '.join(names_of(schemas))}; choose another "
            "tool_format, such as 'hermes'"
        )

    def continuation(self, messages: Sequence[Message]) -> list[str] | None:
        """Outputs between ``<interpreter>`` tags, what a user says bare, all within the same message."""
        frames = [
            ("\n<interpreter>\n", "\n</interpreter>") if message.role == "tool" else ("\n\n", "")
            for message in messages
        ]
        return glue_of(frames, "\n\n")

    def write_calls(self, calls: Sequence[ToolCall]) -> str:
        """Each program in a fence between its tags. A turn ends with the first."""
        return "\n".join(f"<code>\n```python\n{call.arguments.get('code', '')}\n```\n</code>" for call in calls)

    def write_answer(self, answer: str) -> str:
        """The answer boxed between its tags; bare, where its braces would break the box."""
        boxed = f"\\boxed{{{answer}}}"
        return f"<answer>{boxed if last_boxed(boxed) == answer.strip() else answer}</answer>"


def last_boxed(text: str) -> str | None:
    r"""What the last balanced ``\boxed{}`` holds, stripped, or None; ``\{`` and ``\}`` don't count as braces."""
    found = (-1, -1)
    opened: list[int] = []  # where the content of each open brace begins; -1 for those that box nothing
    for match in _BRACES.finditer(text):
        if match.group() in ("{", "\\boxed{"):
            opened.append(match.end() if len(match.group()) > 1 else -1)
        elif match.group() == "}" and opened:
            found = max(found, (opened.pop(), match.start()))
    return None if found[0] < 0 else text[found[0] : found[1]].strip()


def _read_code(block: str | None) -> ToolCall:
    if block is None:
        return malformed("a <code> or </code> tag has no partner", _EXPECTED)
    code = _unfenced(clean_text(block))
    if not code.strip():
        return malformed("the code is empty", _EXPECTED)
    return ToolCall("python", {"code": code})


def _unfenced(block: str) -> str:
    """The code without its fence and the line breaks that belong to it; from the first fence to the last."""
    opened = _FENCE.match(block, len(block) - len(block.lstrip()))
    if opened is None:
        return block.strip("\n")
    code = block[opened.end() :].rstrip()
    return code.removesuffix("```").removesuffix("\n") if code.endswith("```") else block[opened.end() :].strip("\n")
