"""How a model writes a call and an answer: what every tool format provides."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from agent_envs.types import Message, ToolCall


@dataclass(frozen=True, slots=True)
class ParsedTurn:
    """What a turn's text says.

    Attributes:
        calls: in the order written; the unreadable ones carry an error.
        answer: the final answer, stripped, or None where there is none.
        answer_well_formed: True where there is exactly one answer and it isn't empty.
    """

    calls: tuple[ToolCall, ...]
    answer: str | None
    answer_well_formed: bool


class ToolFormat(Hashable, Protocol):
    """Reads a policy's turn and writes what it needs to know. No method raises, whatever the text."""

    name: str
    answer_form: str  # how a prompt says where the answer goes, such as "between <answer> and </answer>"
    answer_example: str  # an answer as a prompt shows it, such as "<answer>your answer</answer>"
    tags: tuple[str, ...]  # what a tokenizer may know as single tokens
    closing_tags: tuple[str, ...]  # ASCII text that may end a turn as soon as the policy has written it
    # Control tokens that end a turn where the tokenizer has them, in the place of the one that the chat template writes
    # behind an assistant's message (which ends one message of several in harmony); () leaves it to the template.
    end_tokens: tuple[str, ...]
    template_marks: tuple[str, ...]  # a chat template that lists tools and writes none of these teaches another format

    def parse(self, text: str) -> ParsedTurn:
        """Reads one whole turn."""
        ...

    def closes_turn(self, text: str) -> bool:
        """Whether a turn that ends in a closing tag is over with it."""
        ...

    def opening(self, prompt: str) -> str:
        """What a generation prompt has already written of the policy's turn, such as the start of a thought."""
        ...

    def describe_tools(self, schemas: Sequence[Mapping[str, Any]]) -> str:
        """The tools and how to call them, for chat templates that don't know tools."""
        ...

    def wrap_result(self, content: str) -> str:
        """A tool's result as text of a user message, for chat templates that don't know tools."""
        ...

    def refuses(self, schemas: Sequence[Mapping[str, Any]]) -> str | None:
        """Why this format cannot call these tools (in words for the user who chose it), or None where it can."""
        ...

    def continuation(self, messages: Sequence[Message]) -> list[str] | None:
        """The glue around a reply to a turn that a closing tag ended, for formats where the same turn simply goes on.

        ``len(messages) + 1`` pieces of trusted text: before the first content, between contents, behind the last.
        None leaves it to the chat template, which ends the assistant's message and opens the next one.
        """
        ...

    def write_calls(self, calls: Sequence[ToolCall]) -> str:
        """Calls of one turn as a policy would write them."""
        ...

    def write_answer(self, answer: str) -> str:
        """A final answer as a policy would write it."""
        ...


def glue_of(frames: Sequence[tuple[str, str]], tail: str) -> list[str]:
    """The pieces of a ``continuation``: what opens and closes each content, and what stands behind the last."""
    pieces = [""]
    for opening, closing in frames:
        pieces[-1] += opening
        pieces.append(closing)
    pieces[-1] += tail
    return pieces
