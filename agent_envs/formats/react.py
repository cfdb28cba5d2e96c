r"""The ReAct format: ``Thought:``, ``Action:``, ``Action Input:`` and ``Final Answer:``, each at the start of a line.

A call is ``Action: NAME`` and ``Action Input: {json}``; several may follow each other. The policy ends its turn by
beginning the line ``Observation:``, behind which the results stand and the same message goes on with ``Thought:``.
Nothing behind an ``Observation:`` of the policy's own is read, be it indented or in the first line. A part runs to the
next label. Nothing in ``Thought:`` or ``<think>``, closed or not, is acted on.

Source: Yao et al. 2023, "ReAct" (arXiv 2210.03629); the labels with JSON input are LangChain's.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from agent_envs.formats.base import ParsedTurn, glue_of
from agent_envs.formats.json_calls import clean_text, malformed, read_arguments, write_json
from agent_envs.formats.tags import THINK_TAGS, without_thoughts
from agent_envs.types import Message, ToolCall

_LABEL = re.compile(r"^[ \t]*(Thought|Action|Action Input|Observation|Final Answer)[ \t]*:", re.MULTILINE)
_OBSERVATION = "\nObservation:"
_EXPECTED = 'expected the two lines\nAction: tool name\nAction Input: {"argument": "value"}'


class ReActFormat:
    """Labelled lines; ``Observation:`` ends the turn."""

    name = "react"
    answer_form = 'after "Final Answer:" on a line of its own'
    answer_example = "Final Answer: your answer"
    tags: tuple[str, ...] = THINK_TAGS
    closing_tags: tuple[str, ...] = (_OBSERVATION,)
    end_tokens: tuple[str, ...] = ()
    template_marks: tuple[str, ...] = ()  # no chat template knows it

    def parse(self, text: str) -> ParsedTurn:
        """Reads one turn; see the module's docstring."""
        parts = _parts(without_thoughts(text))
        answers = [content for label, content in parts if label == "Final Answer"]
        calls = _read_calls(parts)
        if not answers:
            return ParsedTurn(calls, None, answer_well_formed=False)
        return ParsedTurn(calls, answers[-1], answer_well_formed=len(answers) == 1 and bool(answers[0]))

    def closes_turn(self, text: str) -> bool:
        """True where the observation that was just begun is no part of a ``<think>``."""
        return _OBSERVATION in without_thoughts(text)

    def opening(self, prompt: str) -> str:
        """The opening tag of a thought, where the generation prompt ends with it."""
        return "<think>" if prompt.rstrip().endswith("<think>") else ""

    def describe_tools(self, schemas: Sequence[Mapping[str, Any]]) -> str:
        """The tools as JSON schemas and how to call them."""
        lines = "\n".join(json.dumps(schema, ensure_ascii=False) for schema in schemas)
        return (
            f"You can use these tools, described by JSON schemas, one a line:\n{lines}\n"
            "To use one, write\n"
            "Thought: what you need to know\n"
            "Action: the name of one tool\n"
            "Action Input: its arguments, as a JSON object on one line\n"
            "Observation: this is where you stop; what the tool found is put here\n"
            "and go on with the next thought. Several pairs of Action and Action Input may stand before one "
            "Observation."
        )

    def wrap_result(self, content: str) -> str:
        """The result as an observation."""
        return f"Observation: {content}"

    def refuses(self, schemas: Sequence[Mapping[str, Any]]) -> str | None:
        """None: JSON can spell every call."""
        return None

    def continuation(self, messages: Sequence[Message]) -> list[str] | None:
        """One after the other behind ``Observation:``, then the next thought."""
        frames = [("\n" if index else " ", "") for index in range(len(messages))]
        return glue_of(frames, "\nThought:")

    def write_calls(self, calls: Sequence[ToolCall]) -> str:
        """Each on two lines, then the line that ends the turn. A new line begins it: a label may stand before."""
        pairs = [
            f"\nAction: {call.name}\nAction Input: {write_json(dict(call.arguments), self.tags)}" for call in calls
        ]
        return "".join(pairs) + _OBSERVATION

    def write_answer(self, answer: str) -> str:
        """The answer behind its label. A new line begins it: a label may stand before."""
        return f"\nFinal Answer: {answer}"


def _parts(text: str) -> list[tuple[str, str]]:
    """Each label before the first ``Observation:``, and what stands behind it, stripped."""
    labels = list(_LABEL.finditer(text))
    ends = [*(label.start() for label in labels), len(text)][1:]
    observed = next((at for at, label in enumerate(labels) if label.group(1) == "Observation"), len(labels))
    labels, ends = labels[:observed], ends[:observed]
    return [
        (label.group(1), clean_text(text[label.end() : end]).strip()) for label, end in zip(labels, ends, strict=True)
    ]


def _read_calls(parts: Sequence[tuple[str, str]]) -> tuple[ToolCall, ...]:
    calls: list[ToolCall] = []
    action: str | None = None
    for label, content in [*parts, ("", "")]:
        if label == "Action Input":
            calls.append(_read_call(action, content))
            action = None
            continue
        if action is not None:
            calls.append(malformed(f"the action {action!r} has no Action Input", _EXPECTED))
        action = content if label == "Action" else None
    return tuple(calls)


def _read_call(name: str | None, arguments: str) -> ToolCall:
    if name is None:
        return malformed("an Action Input stands behind no Action", _EXPECTED)
    if not name or "\n" in name:
        return malformed("behind Action stands no tool's name alone", _EXPECTED)
    return read_arguments(name, arguments, _EXPECTED)
