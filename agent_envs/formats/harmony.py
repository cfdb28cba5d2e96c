"""The harmony format of gpt-oss: a turn is a run of messages, each with a header that names its channel.

A thought: ``<|channel|>analysis<|message|>...<|end|><|start|>assistant``. A call:
``<|channel|>commentary to=functions.NAME <|constrain|>json<|message|>{...}<|call|>``. An answer:
``<|channel|>final<|message|>...<|return|>``. What stands on the analysis
channel is thought. A message on the commentary channel to ``functions.NAME`` is a call; the recipient may stand before
or behind the channel. Any other recipient, or a call on another channel, is a malformed call. Commentary to nobody is
plain text; so is text without a header, and messages of a role that isn't the assistant's are not read.

A message on the final channel is the answer; a pair of ``<answer>`` tags in it takes precedence over the rest of the
message. The answer is well formed if there is one such message and it isn't empty (nor has stray or second tags).

``<|call|>`` and ``<|return|>`` end the turn, wherever they stand: gpt-oss knows them as control tokens, which no text
spells. ``<|end|>`` ends a message only. The last mark may be missing, as it does where it was an end-of-turn token.

Source: OpenAI, "OpenAI harmony response format" (cookbook, 2025).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agent_envs.formats.base import ParsedTurn, glue_of
from agent_envs.formats.harmony_types import namespace
from agent_envs.formats.json_calls import clean_text, malformed, read_arguments, write_json
from agent_envs.formats.tags import blocks, read_answer, without_thoughts
from agent_envs.types import Message, ToolCall

_MARKS = ("<|start|>", "<|end|>", "<|message|>", "<|channel|>", "<|constrain|>", "<|return|>", "<|call|>")
_CLOSING = ("<|return|>", "<|call|>")
_FIRST_CLOSING = re.compile(r"<\|(?:call|return)\|>")
_ASSISTANT = re.compile(r"\s*assistant\b")
_CHANNEL = re.compile(r"<\|channel\|>\s*(\w*)")
_RECIPIENT = re.compile(r"\bto=([^\s<]*)")
_SAFE_NAME = re.compile(r"[A-Za-z0-9_./:-]{1,128}")  # a name is put among trusted marks, so it must be none
_EXPECTED = 'expected <|channel|>commentary to=functions.NAME <|constrain|>json<|message|>{"argument": "value"}<|call|>'


@dataclass(frozen=True, slots=True)
class _Said:
    """One message of the policy; ``content`` is None where the header was never followed by ``<|message|>``."""

    channel: str
    recipient: str | None
    content: str | None


class HarmonyFormat:
    """Messages on channels; ``<|call|>`` and ``<|return|>`` end the turn."""

    name = "harmony"
    answer_form = "in the final channel"
    answer_example = "your answer in the final channel"
    tags: tuple[str, ...] = _MARKS
    closing_tags: tuple[str, ...] = _CLOSING
    end_tokens: tuple[str, ...] = _CLOSING
    template_marks: tuple[str, ...] = ("<|channel|>",)

    def parse(self, text: str) -> ParsedTurn:
        """Reads one turn; see the module's docstring."""
        said = list(_messages(_FIRST_CLOSING.split(text, maxsplit=1)[0]))
        calls = tuple(_read_call(message) for message in said if message.recipient is not None)
        finals = [m.content for m in said if m.channel == "final" and m.recipient is None and m.content is not None]
        if not finals:
            return ParsedTurn(calls, None, answer_well_formed=False)
        answer, well_formed = _read_final(finals[-1])
        return ParsedTurn(calls, answer, well_formed and len(finals) == 1)

    def closes_turn(self, text: str) -> bool:
        """True: the marks are control tokens."""
        return _FIRST_CLOSING.search(text) is not None

    def opening(self, prompt: str) -> str:
        """The header of the policy's first message, and what it holds already, as the generation prompt left it."""
        start = prompt.rfind("<|start|>")
        last = prompt[start:] if start >= 0 else ""
        return "" if any(mark in last for mark in ("<|end|>", *_CLOSING)) else last

    def describe_tools(self, schemas: Sequence[Mapping[str, Any]]) -> str:
        """The tools as a namespace of types, and how to call them."""
        if not schemas:
            return ""
        return (
            "# Tools\n\n"
            "To call a function, write its arguments as one JSON object in a message on the commentary channel to "
            "functions.<name>; then your turn is over, and the result comes back on the commentary channel.\n\n"
            f"## functions\n\n{namespace(schemas)}"
        )

    def wrap_result(self, content: str) -> str:
        """The result between ``<tool_response>`` tags, for chat templates without channels."""
        return f"<tool_response>\n{content}\n</tool_response>"

    def refuses(self, schemas: Sequence[Mapping[str, Any]]) -> str | None:
        """None: JSON can spell every call."""
        return None

    def continuation(self, messages: Sequence[Message]) -> list[str] | None:
        """Messages of the tools and of the user, then the header of the policy's next message."""
        frames = [(f"<|start|>{_header(message)}<|message|>", "<|end|>") for message in messages]
        return glue_of(frames, "<|start|>assistant")

    def write_calls(self, calls: Sequence[ToolCall]) -> str:
        """Each as a message; only the last one ends the turn."""
        written = [
            f"<|channel|>commentary to=functions.{call.name} <|constrain|>json<|message|>"
            + write_json(dict(call.arguments), ("<think>", "</think>", *_MARKS))
            for call in calls
        ]
        return "<|end|><|start|>assistant".join(written) + "<|call|>"

    def write_answer(self, answer: str) -> str:
        """A message on the final channel."""
        return f"<|channel|>final<|message|>{answer}<|return|>"


def _header(message: Message) -> str:
    if message.role != "tool":
        return message.role
    name = message.name if _SAFE_NAME.fullmatch(message.name) else "unknown"
    return f"functions.{name} to=assistant<|channel|>commentary"


def _messages(text: str) -> Iterator[_Said]:
    """The assistant's messages. Each runs to its ``<|end|>``, so a thought that is left open swallows the rest."""
    for piece in text.split("<|end|>"):
        before, begun, content = piece.partition("<|message|>")
        if not begun and "<|channel|>" not in before:
            continue  # plain text
        _, started, header = before.rpartition("<|start|>")
        if started and not _ASSISTANT.match(header):
            continue  # a role that the policy made up
        channel, recipient = _CHANNEL.search(header), _RECIPIENT.search(header)
        yield _Said(
            channel.group(1) if channel else "",
            clean_text(recipient.group(1)) if recipient else None,
            clean_text(content) if begun else None,
        )


def _read_call(message: _Said) -> ToolCall:
    recipient = message.recipient or ""
    name = recipient.removeprefix("functions.")
    if message.content is None:
        return malformed(f"the header of a call to {recipient!r} is followed by no <|message|>", _EXPECTED)
    if message.channel != "commentary":
        where = f"on the {message.channel} channel" if message.channel else "on no channel"
        return malformed(f"the call to {recipient!r} is {where}, not on commentary", _EXPECTED)
    if name == recipient or not name:
        return malformed(f"the call is to {recipient!r}, not to functions.NAME", _EXPECTED)
    return read_arguments(name, message.content, _EXPECTED)


def _read_final(content: str) -> tuple[str, bool]:
    spoken = without_thoughts(content)
    answer, well_formed = read_answer(spoken)
    if answer is not None:
        return answer, well_formed
    whole = spoken.strip()
    return whole, bool(whole) and not blocks(spoken, "answer")
