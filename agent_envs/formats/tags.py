"""What the formats with tags share: thoughts in ``<think>``, answers in ``<answer>``. All of it in linear time."""

from __future__ import annotations

import abc
import re
from collections.abc import Mapping, Sequence
from typing import Any

from agent_envs.formats.base import ParsedTurn
from agent_envs.formats.json_calls import clean_text
from agent_envs.types import Message, ToolCall

THINK_TAGS = ("<think>", "</think>")
ANSWER_TAGS = ("<answer>", "</answer>")


class AnswerTags(abc.ABC):
    """A format whose answer stands in ``<answer>`` tags, the last of which ends the turn. Calls are the heirs' part."""

    answer_form = "between <answer> and </answer>"
    answer_example = "<answer>your answer</answer>"
    closing_tags: tuple[str, ...] = ("</answer>",)
    end_tokens: tuple[str, ...] = ()

    def parse(self, text: str) -> ParsedTurn:
        """Reads one turn; what stands in a thought is not there."""
        spoken = without_thoughts(text)
        answer, well_formed = read_answer(self.without_arguments(spoken))
        return ParsedTurn(self.read_calls(spoken), answer, well_formed)

    @abc.abstractmethod
    def read_calls(self, spoken: str) -> tuple[ToolCall, ...]:
        """The calls in what was said outside thoughts."""

    def without_arguments(self, spoken: str) -> str:
        """What was said, with no answer in it that is an argument of a call."""
        return spoken

    def closes_turn(self, text: str) -> bool:
        """True where an answer is closed that is no part of a thought, nor of an argument."""
        return has_block(self.without_arguments(without_thoughts(text)), "answer")

    def opening(self, prompt: str) -> str:
        """The opening tag of a thought, where the generation prompt ends with it."""
        return "<think>" if prompt.rstrip().endswith("<think>") else ""

    def refuses(self, schemas: Sequence[Mapping[str, Any]]) -> str | None:
        """None: every call can be spelled."""
        return None

    def continuation(self, messages: Sequence[Message]) -> list[str] | None:
        """None: results come in messages of their own."""
        return None

    def write_answer(self, answer: str) -> str:
        """The answer between its tags."""
        return f"<answer>{answer}</answer>"


def without_thoughts(text: str) -> str:
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


def blocks(text: str, tag: str) -> list[str | None]:
    """The text between each pair of tags, in order; None for a tag that has no partner."""
    found: list[str | None] = []
    opened: int | None = None
    for match in re.finditer(f"<(/?){tag}>", text):
        if not match.group(1):
            if opened is not None:
                found.append(None)
            opened = match.end()
        else:
            found.append(None if opened is None else text[opened : match.start()])
            opened = None
    if opened is not None:
        found.append(None)
    return found


def has_block(text: str, tag: str) -> bool:
    """Whether a pair of these tags is complete."""
    return any(block is not None for block in blocks(text, tag))


def read_answer(spoken: str) -> tuple[str | None, bool]:
    """The last answer, stripped, or None; and whether it is the only one, with no tag astray, and not empty."""
    found = blocks(spoken, "answer")
    whole = [block for block in found if block is not None]
    if not whole:
        return None, False
    answer = clean_text(whole[-1]).strip()
    return answer, len(found) == 1 and bool(answer)


def without_answers(spoken: str) -> str:
    """What stands outside answers, closed or not."""
    pieces = spoken.split("</answer>")
    return "\n".join(piece.partition("<answer>")[0] for piece in pieces)
