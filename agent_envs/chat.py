"""Chat template to token ids, a message at a time: what the policy sampled is never rendered again.

A template is rendered with *slots* (made-up words) in place of contents. The text between slots is the template's
*glue*, trusted, encoded with control tokens on. Contents are encoded by themselves with control tokens off and put
between. So a document cannot close a message, and a template that rewrites earlier turns (dropping their thoughts,
say) has nothing to rewrite: only what follows the policy's turn is taken from it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from agent_envs.errors import ChatTemplateError
from agent_envs.formats.base import ToolFormat
from agent_envs.tokenizers import Tokenizer, ToolSchema
from agent_envs.types import Message, Role

CUT_MARK = " [...]"
_MAX_FRAMES = 256  # kept at a time: names of tools are the policy's words, so there is no end of them


@dataclass(frozen=True, slots=True)
class Feedback:
    """The environment's tokens after a turn.

    Attributes:
        ids: up to where the policy's next turn begins.
        was_cut: contents were shortened: to their own limits, or to fit.
        was_squeezed: contents were shortened to fit.
        opening: what the last of them has already written of that turn, such as the start of a thought.
    """

    ids: list[int]
    was_cut: bool
    was_squeezed: bool
    opening: str


@dataclass(frozen=True, slots=True)
class _Frame:
    """The glue around the contents of a feedback: ``glue[0] content[0] glue[1] ... content[n-1] glue[n]``.

    ``opening`` is what the last piece has already written of the policy's next turn.
    """

    glue: tuple[tuple[int, ...], ...]
    opening: str

    @property
    def length(self) -> int:
        return sum(len(piece) for piece in self.glue)


class ChatRenderer:
    """Renders the prompt and the feedback of one kind of episode."""

    def __init__(self, tokenizer: Tokenizer, tool_format: ToolFormat, tools: Sequence[ToolSchema]) -> None:
        """Looks at how the tokenizer's chat template behaves.

        Raises:
            ChatTemplateError: the template is missing, has no generation prompt, or cannot be driven turn by turn.
        """
        self._tokenizer = tokenizer
        self._format = tool_format
        self._tools = tuple(tools)
        self._frames: dict[tuple[tuple[tuple[Role, str], ...], bool, bool], _Frame] = {}
        _require_generation_prompt(tokenizer)
        self._system_role = _accepts(tokenizer, ("system", "user"), ())
        self._template_knows_tools = _knows_tools(tokenizer, self._tools, tool_format.template_marks)
        self._ends_turn = self._find_end_of_turn()
        self.turn_opening = tool_format.opening(tokenizer.render(_slots(("user",)), (), True))
        ends = _control_ids(tokenizer, tool_format.end_tokens) or self._ends_turn
        self._ends_message = frozenset((*self._ends_turn, *ends))  # behind these the template's own is one too many
        self.end_of_turn_ids = tokenizer.eos_ids | frozenset(ends)
        self.end_of_turn_id = next(iter(ends or tokenizer.eos_ids))

    @property
    def template_knows_tools(self) -> bool:
        """True where the chat template lists tools and renders results in its own way, which is the format's too."""
        return self._template_knows_tools

    def prompt(self, system: str, user: str) -> list[int]:
        """Ids of the whole prompt: system message (if any), tools, the user's message, generation prompt."""
        if self._tools and not self._template_knows_tools:
            system = "\n\n".join(part for part in (system, self._format.describe_tools(self._tools)) if part)
        contents = [system, user] if system else [user]
        roles: tuple[Role, ...] = ("system", "user") if system else ("user",)
        if system and not self._system_role:
            contents, roles = [f"{system}\n\n{user}"], ("user",)
        text = self._tokenizer.render(_slots(roles), self._template_tools, generation_prompt=True)
        pieces = _split(text, len(roles), self._tokenizer.name)
        ids = self._tokenizer.encode(pieces[0])
        for content, glue in zip(contents, pieces[1:], strict=True):
            ids += self._tokenizer.encode_plain(content) + self._tokenizer.encode(glue)
        return ids

    def feedback(
        self, messages: Sequence[Message], last_sampled: int, max_content: int, goes_on: bool = False
    ) -> Feedback:
        """Ids that go from the end of the policy's turn to where its next one begins.

        Args:
            messages: what the environment says: tool results first, then at most one user message. Tool results are
                shortened where they must be; a user message is never cut.
            last_sampled: the last id of the turn; an end of turn that was sampled is not written again.
            max_content: how many tokens the contents may take together, user message included.
            goes_on: a closing tag ended the turn, so that the format may let the same message go on.
        """
        frame = self._frame(messages, last_sampled, goes_on)
        contents = [self._tokenizer.encode_plain(message.content) for message in messages]
        limited = [
            content if message.max_tokens is None else self._cut(content, message.max_tokens)
            for content, message in zip(contents, messages, strict=True)
        ]
        fitted = self._fit(limited, [message.role == "tool" for message in messages], max_content)
        ids = list(frame.glue[0])
        for content, glue in zip(fitted, frame.glue[1:], strict=True):
            ids += content
            ids += glue
        return Feedback(ids, fitted != contents, fitted != limited, frame.opening)

    def frame_length(self, messages: Sequence[Message], last_sampled: int, goes_on: bool = False) -> int:
        """How many tokens of a feedback are glue."""
        return self._frame(messages, last_sampled, goes_on).length

    @property
    def _template_tools(self) -> tuple[ToolSchema, ...]:
        return self._tools if self._template_knows_tools else ()

    def _frame(self, messages: Sequence[Message], last_sampled: int, goes_on: bool) -> _Frame:
        speakers = tuple((message.role, message.name) for message in messages)
        key = (speakers, last_sampled in self._ends_message, goes_on)
        frame = self._frames.get(key)  # other threads may empty the store at any moment
        if frame is None:
            glue = self._format.continuation(messages) if goes_on else None
            if glue is None:
                frame = self._make_frame(tuple(role for role, _ in speakers), key[1])
            else:
                frame = self._encoded(glue, self._format.opening(glue[-1]))
            if len(self._frames) >= _MAX_FRAMES:
                self._frames.clear()
            self._frames[key] = frame
        return frame

    def _encoded(self, glue: Sequence[str], opening: str) -> _Frame:
        return _Frame(tuple(tuple(self._tokenizer.encode(piece)) for piece in glue), opening)

    def _make_frame(self, roles: tuple[Role, ...], end_was_sampled: bool) -> _Frame:
        glue = self._glue_after_turn(roles)
        if end_was_sampled and self._ends_turn:
            end = self._tokenizer.token_text(next(iter(self._ends_turn)))
            _, found, rest = glue[0].partition(end)
            glue[0] = rest if found else glue[0]  # a template may end turns before users and tools differently
        return self._encoded(glue, self.turn_opening)

    def _glue_after_turn(self, roles: tuple[Role, ...]) -> list[str]:
        """The template's text between contents, from the end of an assistant's turn on."""
        if self._template_knows_tools:
            slots = _slots(roles, first=2)
            try:
                return self._render_after_turn(slots, len(roles))
            except ChatTemplateError:
                pass  # knows tools, but not these roles in this order: put the results into a user message
        text = "\n".join(
            self._format.wrap_result(slot.content) if slot.role == "tool" else slot.content
            for slot in _slots(roles, first=2)
        )
        return self._render_after_turn([Message("user", text)], len(roles))

    def _render_after_turn(self, messages: Sequence[Message], count: int) -> list[str]:
        history = _slots(("user", "assistant"))
        text = self._tokenizer.render([*history, *messages], self._template_tools, generation_prompt=True)
        return _split(text, count + 2, self._tokenizer.name)[2:]

    def _find_end_of_turn(self) -> tuple[int, ...]:
        """The control token that the template writes after an assistant's turn, if it writes one."""
        for token_id in self._tokenizer.encode(self._render_after_turn([Message("user", _slot(2))], 1)[0]):
            if self._tokenizer.is_control(token_id):
                return (token_id,)
            if self._tokenizer.token_text(token_id).strip():
                break
        return ()

    def _fit(self, contents: list[list[int]], may_cut: list[bool], max_content: int) -> list[list[int]]:
        fixed = sum(len(content) for content, cut in zip(contents, may_cut, strict=True) if not cut)
        lengths = [len(content) for content, cut in zip(contents, may_cut, strict=True) if cut]
        shares = iter(_fair_shares(lengths, max(0, max_content - fixed)))
        return [
            self._cut(content, next(shares)) if cut else content for content, cut in zip(contents, may_cut, strict=True)
        ]

    def _cut(self, ids: list[int], length: int) -> list[int]:
        """The first ids, ending in a mark, with no character cut in half."""
        if len(ids) <= length:
            return ids
        mark = self._tokenizer.encode_plain(CUT_MARK)
        kept = ids[: max(0, length - len(mark))]
        while kept and self._tokenizer.decode(kept[-4:]).endswith("\ufffd"):
            kept.pop()
        return (kept + mark)[:length]


def _fair_shares(lengths: Sequence[int], budget: int) -> list[int]:
    """Splits a budget so that short contents are kept whole and long ones get equal parts."""
    shares = [0] * len(lengths)
    left = budget
    by_length = sorted(range(len(lengths)), key=lambda i: (lengths[i], i))
    for rank, i in enumerate(by_length):
        shares[i] = min(lengths[i], left // (len(lengths) - rank))
        left -= shares[i]
    return shares


def _slot(number: int) -> str:
    return f"AgentSlot{number}Text"


def _slots(roles: Sequence[Role], first: int = 0) -> list[Message]:
    return [Message(role, _slot(number)) for number, role in enumerate(roles, start=first)]


def _split(text: str, count: int, name: str) -> list[str]:
    """The glue around ``count`` slots.

    Raises:
        ChatTemplateError: a slot is missing, repeated, or out of order.
    """
    pieces = []
    for number in range(count):
        before, found, text = text.partition(_slot(number))
        if not found or _slot(number) in text:
            raise ChatTemplateError(
                f"the chat template of {name!r} drops, repeats or reorders messages, "
                "so it cannot be driven turn by turn"
            )
        pieces.append(before)
    return [*pieces, text]


def _control_ids(tokenizer: Tokenizer, texts: Sequence[str]) -> tuple[int, ...]:
    """The control tokens that these texts are, for a tokenizer that has them."""
    encoded = [tokenizer.encode(text) for text in texts]
    return tuple(ids[0] for ids in encoded if len(ids) == 1 and tokenizer.is_control(ids[0]))


def _accepts(tokenizer: Tokenizer, roles: Sequence[Role], tools: Sequence[ToolSchema]) -> bool:
    try:
        _split(tokenizer.render(_slots(roles), tools, generation_prompt=True), len(roles), tokenizer.name)
    except ChatTemplateError:
        return False
    return True


def _knows_tools(tokenizer: Tokenizer, tools: Sequence[ToolSchema], marks: Sequence[str]) -> bool:
    """True where the template shows tools and takes their results, with the marks of the tool format.

    A template of another convention (Llama 3's, say) would teach calls that nobody reads. What a template shows of
    tools is part of its trusted text, so tools whose descriptions spell control tokens are not given to it.
    """
    roles: tuple[Role, ...] = ("user", "assistant", "tool")
    if not tools or _spells_control(tokenizer, tools) or not _accepts(tokenizer, roles, tools):
        return False
    slots = _slots(("user",))
    try:
        shown = tokenizer.render(slots, tools, True) != tokenizer.render(slots, (), True)
    except ChatTemplateError:
        return False
    played = tokenizer.render(_slots(roles), tools, generation_prompt=True)
    return shown and any(mark in played for mark in marks)


def _spells_control(tokenizer: Tokenizer, tools: Sequence[ToolSchema]) -> bool:
    """True where a text in these schemas, which may come from anybody's server, would be read as a control token."""
    return any(tokenizer.is_control(token_id) for token_id in tokenizer.encode(json.dumps(tools, ensure_ascii=False)))


def _begins_turns_itself(tokenizer: Tokenizer, prompt: str) -> bool:
    """True where the assistant's words follow the user's message at once, as in Mistral's: nothing is missing."""
    try:
        whole = tokenizer.render(_slots(("user", "assistant")), (), False)
    except ChatTemplateError:
        return False
    before, found, _ = whole.partition(_slot(1))
    return bool(found) and before.rstrip() == prompt.rstrip() != _slot(0)


def _require_generation_prompt(tokenizer: Tokenizer) -> None:
    slots = _slots(("user",))
    prompt = tokenizer.render(slots, (), True)
    if prompt == tokenizer.render(slots, (), False) and not _begins_turns_itself(tokenizer, prompt):
        raise ChatTemplateError(
            f"the chat template of {tokenizer.name!r} has no generation prompt (add_generation_prompt changes "
            "nothing), so nothing tells the policy that its turn begins; add it to the template"
        )
