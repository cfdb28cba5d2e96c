"""Text to token ids and back: the embedded byte-level tokenizer, and any Hugging Face one by name or folder.

Two ways to encode keep documents from closing anything: ``encode`` reads special tokens in trusted text (a chat
template's glue); ``encode_plain`` is for content and can never give a control token, whatever the text spells.
"""

from __future__ import annotations

import datetime
import functools
import re
from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from agent_envs.errors import ChatTemplateError, MissingExtraError, TokenizerError
from agent_envs.types import Message

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

ToolSchema = Mapping[str, Any]


class Tokenizer(Hashable, Protocol):
    """What the core needs of a tokenizer. Instances are shared between environments and never change."""

    name: str
    vocab_size: int
    pad_id: int
    eos_ids: frozenset[int]

    def encode(self, text: str) -> list[int]:
        """Ids of trusted text; control tokens that it spells become single ids."""
        ...

    def encode_plain(self, text: str) -> list[int]:
        """Ids of content; never a control token."""
        ...

    def decode(self, ids: Sequence[int]) -> str:
        """The text of ids, control tokens spelled out; ids outside the vocabulary give nothing."""
        ...

    def token_text(self, token_id: int) -> str:
        """The text that one id adds to a text (cached)."""
        ...

    def is_control(self, token_id: int) -> bool:
        """True for ids that ``encode_plain`` never gives."""
        ...

    def ids_containing(self, characters: frozenset[str]) -> frozenset[int]:
        """The ids whose text holds one of these ASCII characters (a superset will do)."""
        ...

    def render(self, messages: Sequence[Message], tools: Sequence[ToolSchema], generation_prompt: bool) -> str:
        """The chat template's text for these messages.

        Raises:
            ChatTemplateError: the template refuses the messages.
        """
        ...


class ByteTokenizer:
    """Every byte is a token, and a few special ones: works for any text, with nothing to download.

    Ids 0-255 are bytes; then ``<|pad|>``, ``<|im_start|>``, ``<|im_end|>``. The chat template is ChatML with tools.
    """

    name = "byte"
    SPECIALS = ("<|pad|>", "<|im_start|>", "<|im_end|>")
    pad_id = 256
    vocab_size = 256 + len(SPECIALS)
    eos_ids = frozenset({258})

    _special_pattern = re.compile("(" + "|".join(re.escape(text) for text in SPECIALS) + ")")

    def encode(self, text: str) -> list[int]:
        """Ids of trusted text."""
        ids: list[int] = []
        for piece in self._special_pattern.split(text):
            if piece in self.SPECIALS:
                ids.append(256 + self.SPECIALS.index(piece))
            else:
                ids.extend(self.encode_plain(piece))
        return ids

    def encode_plain(self, text: str) -> list[int]:
        """The text's UTF-8 bytes; a lone surrogate becomes "?"."""
        return list(text.encode("utf-8", "replace"))

    def decode(self, ids: Sequence[int]) -> str:
        """The bytes read as UTF-8, broken sequences replaced."""
        try:
            raw = bytes(ids)
        except ValueError:  # not bytes alone
            raw = b"".join(_runs(np.asarray(ids)))
        return raw.decode("utf-8", "replace")

    def token_text(self, token_id: int) -> str:
        """One byte as Latin-1, so that ASCII stays ASCII and nothing is lost; or a special token's name."""
        return chr(token_id) if token_id < 256 else _BYTES[min(token_id, len(_BYTES) - 1)].decode()

    def is_control(self, token_id: int) -> bool:
        """True for the special tokens."""
        return token_id >= 256

    def ids_containing(self, characters: frozenset[str]) -> frozenset[int]:
        """The bytes of these ASCII characters, and the special tokens."""
        return frozenset(ord(character) for character in characters) | frozenset(range(256, self.vocab_size))

    def render(self, messages: Sequence[Message], tools: Sequence[ToolSchema], generation_prompt: bool) -> str:
        """ChatML; tools are listed at the end of the system message, neighbouring tool results share a user message."""
        from agent_envs.formats.hermes import describe_tools

        parts: list[str] = []
        if tools:
            system = "".join(message.content + "\n\n" for message in messages if message.role == "system")
            parts.append(f"<|im_start|>system\n{system}{describe_tools(tools)}<|im_end|>\n")
            messages = [message for message in messages if message.role != "system"]
        for before, message, after in _with_neighbours(messages):
            if message.role != "tool":
                parts.append(f"<|im_start|>{message.role}\n{message.content}<|im_end|>\n")
                continue
            opens = "" if before is not None and before.role == "tool" else "<|im_start|>user\n"
            closes = "\n" if after is not None and after.role == "tool" else "<|im_end|>\n"
            parts.append(f"{opens}<tool_response>\n{message.content}\n</tool_response>{closes}")
        return "".join(parts) + ("<|im_start|>assistant\n" if generation_prompt else "")


# The bytes of each id; the last entry stands for every id beyond the vocabulary.
_BYTES = (*(bytes((i,)) for i in range(256)), *(text.encode() for text in ByteTokenizer.SPECIALS), b"")


def _runs(ids: NDArray[np.integer]) -> Iterator[bytes]:
    """The bytes of ids: runs of plain ones, and between them those of the others."""
    start = 0
    for at in np.flatnonzero(ids > 255).tolist():
        yield ids[start:at].astype(np.uint8).tobytes()
        yield _BYTES[min(int(ids[at]), len(_BYTES) - 1)]
        start = at + 1
    yield ids[start:].astype(np.uint8).tobytes()


def _with_neighbours(
    messages: Sequence[Message],
) -> list[tuple[Message | None, Message, Message | None]]:
    padded: list[Message | None] = [None, *messages, None]
    return [(padded[i], message, padded[i + 2]) for i, message in enumerate(messages)]


class HuggingFaceTokenizer:
    """A transformers tokenizer with its own chat template."""

    def __init__(self, name: str, tokenizer: PreTrainedTokenizerBase) -> None:
        """Takes a loaded tokenizer as its own, and switches off the truncation and padding that were saved with it.

        Raises:
            TokenizerError: it has no end-of-sequence token.
            ChatTemplateError: it has no chat template.
        """
        if not tokenizer.chat_template:
            raise ChatTemplateError(
                f"the tokenizer {name!r} has no chat template (is it a base model?); use an instruction-tuned model, "
                "or set tokenizer.chat_template and save it to a folder"
            )
        if tokenizer.eos_token_id is None:
            raise TokenizerError(f"the tokenizer {name!r} has no end-of-sequence token; set eos_token and save it")
        self.name = name
        self._tokenizer = tokenizer
        self.vocab_size = max(tokenizer.get_vocab().values()) + 1
        self.eos_ids = frozenset({int(tokenizer.eos_token_id)})
        pad = tokenizer.pad_token_id
        self.pad_id = int(tokenizer.eos_token_id if pad is None else pad)
        self._control = _control_tokens(tokenizer)
        literals = sorted(self._control.values(), key=len, reverse=True)
        self._literal_pattern = re.compile("|".join(re.escape(text) for text in literals) or r"(?!)")
        self._texts: dict[int, str] = {}
        # The Rust tokenizer itself where there is one: five times as fast, and safe to share between threads.
        self._backend = getattr(tokenizer, "backend_tokenizer", None)
        if self._backend is not None:
            self._backend.no_truncation()
            self._backend.no_padding()
        self._anchor = self.encode("a")
        self._anchor_text = self.decode(self._anchor)

    def encode(self, text: str) -> list[int]:
        """Ids of trusted text, without the template's or tokenizer's own additions."""
        if not text:
            return []
        if self._backend is not None:
            return list(self._backend.encode(text, add_special_tokens=False).ids)
        return list(self._tokenizer.encode(text, add_special_tokens=False))

    def encode_plain(self, text: str) -> list[int]:
        """Ids of content. Text that spells a control token is cut inside it, so that it is encoded as ordinary text."""
        text = text.encode("utf-8", "replace").decode("utf-8")
        ids: list[int] = []
        for piece in self._harmless_pieces(text):
            ids.extend(self.encode(piece))
        if self._control.keys().isdisjoint(ids):
            return ids
        # A normaliser of the tokenizer has made a control token of harmless text: go character by character.
        by_character = [token_id for character in text for token_id in self.encode(character)]
        return [token_id for token_id in by_character if token_id not in self._control]

    def decode(self, ids: Sequence[int]) -> str:
        """The ids' text as it is, control tokens included."""
        known = [int(i) for i in ids if i < self.vocab_size]
        text = self._tokenizer.decode(known, skip_special_tokens=False, clean_up_tokenization_spaces=False)
        return str(text)

    def token_text(self, token_id: int) -> str:
        """The text that one id adds to a text: a leading space, which decoders drop from a whole text, included."""
        text = self._texts.get(token_id)
        if text is None:
            both = self.decode([*self._anchor, token_id])
            known = both.startswith(self._anchor_text)
            text = self._texts[token_id] = both[len(self._anchor_text) :] if known else self.decode([token_id])
        return text

    def is_control(self, token_id: int) -> bool:
        """True for special tokens and for added ones that look like tags."""
        return token_id in self._control

    def ids_containing(self, characters: frozenset[str]) -> frozenset[int]:
        """The ids whose stored form holds one of these ASCII characters, or is the byte of one, such as <0x3E>."""
        spelled = {f"<0x{ord(character):02X}>" for character in characters}
        return frozenset(
            token_id
            for token, token_id in self._tokenizer.get_vocab().items()
            if not characters.isdisjoint(token) or token in spelled or token_id in self._control
        )

    def render(self, messages: Sequence[Message], tools: Sequence[ToolSchema], generation_prompt: bool) -> str:
        """The text of the tokenizer's own chat template."""
        import jinja2

        try:
            text = self._tokenizer.apply_chat_template(
                [{"role": message.role, "content": message.content} for message in messages],
                tools=[dict(schema) for schema in tools] or None,
                add_generation_prompt=generation_prompt,
                tokenize=False,
                strftime_now=_fixed_date,
            )
        except (jinja2.TemplateError, ValueError, TypeError, AttributeError, KeyError) as error:
            roles = [message.role for message in messages]
            raise ChatTemplateError(f"the chat template of {self.name!r} refuses the roles {roles}: {error}") from error
        return str(text)

    def _harmless_pieces(self, text: str) -> list[str]:
        pieces, start = [], 0
        for match in self._literal_pattern.finditer(text):
            cut = match.start() + 1
            pieces.append(text[start:cut])
            start = cut
        pieces.append(text[start:])
        return [piece for piece in pieces if piece]


def _fixed_date(layout: str) -> str:
    """Stands in for today in templates that write the date: a prompt must not depend on when it is rendered."""
    return datetime.date(2025, 1, 1).strftime(layout)


def _control_tokens(tokenizer: PreTrainedTokenizerBase) -> dict[int, str]:
    """Special tokens, and added ones that read like a tag; runs of spaces that some tokenizers add stay ordinary."""
    control = {
        int(i): str(text) for i, text in zip(tokenizer.all_special_ids, tokenizer.all_special_tokens, strict=True)
    }
    for token_id, token in tokenizer.added_tokens_decoder.items():
        text = token.content
        if token.special or (len(text) > 1 and text[0] in "<[" and text[-1] in ">]"):
            control[int(token_id)] = text
    return {token_id: text for token_id, text in control.items() if len(text) > 1}


@functools.lru_cache(maxsize=16)
def load_tokenizer(name: str) -> Tokenizer:
    """The tokenizer of that name: ``"byte"``, a folder, or a model's name on the Hugging Face hub.

    Raises:
        MissingExtraError: transformers is needed and not installed.
        TokenizerError: it cannot be loaded, or cannot serve.
    """
    if name == "byte":
        return ByteTokenizer()
    try:
        import transformers
    except ImportError as error:
        raise MissingExtraError(
            f'the tokenizer {name!r} needs transformers: pip install "agent-r1[train]" (or use tokenizer="byte")'
        ) from error
    try:
        loaded = transformers.AutoTokenizer.from_pretrained(name)
    except Exception as error:  # from_pretrained raises anything from OSError to KeyError
        raise TokenizerError(
            f'cannot load the tokenizer {name!r}: expected "byte", a folder with tokenizer files, or a model name on '
            f"the Hugging Face hub ({type(error).__name__}: {str(error).splitlines()[0] if str(error) else error!r})"
        ) from error
    return HuggingFaceTokenizer(name, loaded)
