"""What an episode works with: its tools, and the parts made for their schemas. Made once per episode, mostly shared."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from agent_envs.chat import ChatRenderer
from agent_envs.errors import ConfigError
from agent_envs.formats.base import ParsedTurn, ToolFormat
from agent_envs.replies import EndedTurn
from agent_envs.tasks.base import Decision, OracleTurn, Toolbox
from agent_envs.tokenizers import Tokenizer, ToolSchema
from agent_envs.tools.executor import ToolExecutor
from agent_envs.turn_ends import TurnEnds
from agent_envs.types import Int32Array, ToolCall, ToolResult, Turn


@dataclass(frozen=True, slots=True)
class FinishedTurn:
    """A turn that was read, and waits for its results and the reply.

    Attributes:
        start: of the turn within the episode's tokens.
        tokens: the policy's, and how they ended.
        text: decoded, without an end-of-turn token.
        calls: checked against the tools.
        parsed: what the format reads in the text.
        decision: what the task makes of it; None where a budget cut the turn short.
    """

    start: int
    tokens: EndedTurn
    text: str
    calls: tuple[ToolCall, ...]
    parsed: ParsedTurn
    decision: Decision | None

    @property
    def index(self) -> int:
        """The turn's number."""
        return self.tokens.index

    @property
    def is_message(self) -> bool:
        """True for words without a call that the task takes as said to its user."""
        if self.calls or self.decision is None:
            return False
        return self.decision.message is not None or (self.decision.over and self.parsed.answer is None)

    def record(self, results: Sequence[ToolResult], answered: bool) -> Turn:
        """The turn's record before its reward and its reply."""
        stop = self.start + len(self.tokens.ids)
        return Turn(
            index=self.index,
            start=self.start,
            stop=stop,
            feedback_stop=stop,
            text=self.text,
            answer=self.parsed.answer if answered else None,
            answer_well_formed=answered and self.parsed.answer_well_formed,
            calls=self.calls,
            results=tuple(results),
        )


@dataclass(frozen=True, slots=True)
class EpisodeKit:
    """One episode's tools and what is made for them."""

    tokenizer: Tokenizer
    format: ToolFormat
    toolbox: Toolbox
    executor: ToolExecutor
    renderer: ChatRenderer

    def fork(self) -> EpisodeKit:
        """A kit with a fork of the tools."""
        toolbox = self.toolbox.fork()
        executor = self.executor if toolbox is self.toolbox else ToolExecutor(toolbox.tools)
        return EpisodeKit(self.tokenizer, self.format, toolbox, executor, self.renderer)

    def turn_ends(self, opening: str) -> TurnEnds:
        """Where a turn ends of which so much has been written already."""
        return _shared_turn_ends(self.tokenizer, self.format, opening, self.renderer.end_of_turn_ids)

    def encode_turn(self, text: str, turn_ends: TurnEnds) -> list[int]:
        """A turn written as text, as the policy would have sampled it: the format's tags whole, the end included."""
        ids: list[int] = []
        for piece in _tag_pattern(self.format.tags).split(text):
            ids += self.tokenizer.encode(piece) if piece in self.format.tags else self.tokenizer.encode_plain(piece)
        ended = bool(ids) and turn_ends.ends(ids)
        return ids if ended else [*ids, self.renderer.end_of_turn_id]

    def write_turn(self, turn: OracleTurn) -> str:
        """A turn as text in the format, ready for ``encode_turn``."""
        calls = self.format.write_calls(turn.calls) if turn.calls else ""
        answer = "" if turn.answer is None else self.format.write_answer(turn.answer)
        return "\n".join(part for part in (turn.text, calls, answer) if part)

    def read_turn(
        self, index: int, ids: Int32Array, opening: str
    ) -> tuple[EndedTurn, str, tuple[ToolCall, ...], ParsedTurn]:
        """A turn's tokens, its text, its calls checked, and what the format reads in it behind its opening."""
        turn_ends = self.turn_ends(opening)
        last = int(ids[-1])
        ended_by_id = last in turn_ends.end_ids
        text = self.tokenizer.decode((ids[:-1] if ended_by_id else ids).tolist())
        parsed = self.format.parse(opening + text)
        calls = tuple(self.executor.check(call) for call in parsed.calls)
        goes_on = self.tokenizer.token_text(last) in self.format.closing_tags if ended_by_id else turn_ends.ends(ids)
        return EndedTurn(index, ids, goes_on), text, calls, parsed


def make_kit(env_id: str, toolbox: Toolbox, tokenizer: Tokenizer, tool_format: ToolFormat) -> EpisodeKit:
    """The kit for these tools.

    Raises:
        ConfigError: the format cannot call them.
        ChatTemplateError: the tokenizer's chat template cannot be driven turn by turn.
    """
    schemas = [tool.schema for tool in toolbox.tools]
    refusal = tool_format.refuses(schemas)
    if refusal is not None:
        raise ConfigError(f"tool_format={tool_format.name!r} does not fit {env_id}: {refusal}")
    renderer = _shared_renderer(tokenizer, tool_format, json.dumps(schemas))
    return EpisodeKit(tokenizer, tool_format, toolbox, ToolExecutor(toolbox.tools), renderer)


def phrased(text: str, tool_format: ToolFormat) -> str:
    """A task's text with the words of the format in the place of ``{answer_form}`` and ``{answer_example}``."""
    spelled = text.replace("{answer_form}", tool_format.answer_form)
    return spelled.replace("{answer_example}", tool_format.answer_example)


@functools.lru_cache(maxsize=256)
def _shared_renderer(tokenizer: Tokenizer, tool_format: ToolFormat, schemas: str) -> ChatRenderer:
    """The renderer for tools of these schemas (as JSON); a vector of environments makes it once."""
    tools: list[ToolSchema] = json.loads(schemas)
    return ChatRenderer(tokenizer, tool_format, tools)


@functools.lru_cache(maxsize=64)
def _shared_turn_ends(tokenizer: Tokenizer, tool_format: ToolFormat, opening: str, end_ids: frozenset[int]) -> TurnEnds:
    """Where turns end; it looks at the whole vocabulary, so it is made once."""

    def closes(text: str) -> bool:
        return tool_format.closes_turn(opening + text)

    return TurnEnds(tokenizer, end_ids, tool_format.closing_tags, closes)


@functools.lru_cache(maxsize=64)
def _tag_pattern(tags: tuple[str, ...]) -> re.Pattern[Any]:
    return re.compile("(" + "|".join(re.escape(tag) for tag in tags) + ")")
