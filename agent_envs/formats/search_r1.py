"""The Search-R1 format: ``<think>``, ``<search>query</search>``, results in ``<information>``, ``<answer>``.

The closing tag of a search ends the turn; the result stands right behind it and the same message goes on. There is one
tool, ``search(query)``. A query is text without the format's own tags, stripped. Calls and answers as in ``hermes``:
nothing in a thought is acted on.

Source: Jin et al. 2025, "Search-R1" (arXiv 2503.09516), section 3.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from agent_envs.formats.base import glue_of
from agent_envs.formats.json_calls import clean_text, malformed
from agent_envs.formats.schemas import description_of, names_of, takes_only
from agent_envs.formats.tags import ANSWER_TAGS, THINK_TAGS, AnswerTags, blocks, has_block, without_thoughts
from agent_envs.types import Message, ToolCall

_EXPECTED = "expected <search>what to look for</search>"


class SearchR1Format(AnswerTags):
    """Queries in ``<search>`` tags, which end the turn; answers in ``<answer>`` tags."""

    name = "search-r1"
    tags: tuple[str, ...] = (*THINK_TAGS, "<search>", "</search>", "<information>", "</information>", *ANSWER_TAGS)
    closing_tags: tuple[str, ...] = ("</search>", "</answer>")
    template_marks: tuple[str, ...] = ()  # no chat template knows it

    def read_calls(self, spoken: str) -> tuple[ToolCall, ...]:
        """What stands between ``<search>`` tags."""
        return tuple(_read_query(block) for block in blocks(spoken, "search"))

    def closes_turn(self, text: str) -> bool:
        """True where a search or an answer is closed that is no part of a thought."""
        spoken = without_thoughts(text)
        return has_block(spoken, "answer") or has_block(spoken, "search")

    def describe_tools(self, schemas: Sequence[Mapping[str, Any]]) -> str:
        """How to search; the tool's own description follows."""
        if not schemas:
            return ""
        about = description_of(schemas, "search")
        return (
            "To look something up, write <search>what to look for</search>. What is found follows at once between "
            "<information> and </information>; then go on. You can search as often as you need."
        ) + (f"\nThe search: {about}" if about else "")

    def wrap_result(self, content: str) -> str:
        """The result between ``<information>`` tags."""
        return f"<information>{content}</information>"

    def refuses(self, schemas: Sequence[Mapping[str, Any]]) -> str | None:
        """Every tool but ``search(query)``."""
        if len(schemas) > 1 or not all(takes_only(schema, "search", "query") for schema in schemas):
            return (
                "it can call one tool, search(query), and the tools are "
                f"{', '.join(names_of(schemas))}; choose another tool_format, such as 'hermes'"
            )
        return None

    def continuation(self, messages: Sequence[Message]) -> list[str] | None:
        """Results between ``<information>`` tags, what a user says bare, all within the same message."""
        frames = [
            ("\n\n<information>", "</information>") if message.role == "tool" else ("\n\n", "") for message in messages
        ]
        return glue_of(frames, "\n\n")

    def write_calls(self, calls: Sequence[ToolCall]) -> str:
        """Each query between its tags. A turn ends with the first."""
        return "\n".join(f"<search>{call.arguments.get('query', '')}</search>" for call in calls)


def _read_query(block: str | None) -> ToolCall:
    if block is None:
        return malformed("a <search> or </search> tag has no partner", _EXPECTED)
    query = clean_text(block).strip()
    if not query:
        return malformed("the query is empty", _EXPECTED)
    return ToolCall("search", {"query": query})
