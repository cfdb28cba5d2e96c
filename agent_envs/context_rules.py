"""Context rules: what the policy sees next, given what has happened.

``append`` keeps everything: one append-only run of tokens. The others rewrite the context, which closes a *segment* and
opens another whose prompt is the new context: token-exact within each, so that a learner makes one row per segment.

- ``window``: the prompt and the last turns, as the very tokens that they were.
- ``summary``: the question with a summary of the turns that are dropped, and the last turns as they were.
- ``rebuild``: a prompt written anew from the record of the episode.

Source: the context rule C of arXiv 2511.14460, version 2 (append, sliding window, summary, rebuild).
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from agent_envs.errors import ConfigError
from agent_envs.named_functions import load_function, require_arguments
from agent_envs.types import Turn

RULES = ("append", "window", "summary", "rebuild")
_EXTRACT = 240  # characters of each result that the default summary keeps


@dataclass(frozen=True, slots=True)
class ContextRecord:
    """What a rewriting function is given.

    Attributes:
        question: what the policy was asked, as text.
        turns: for a summary, the turns that are dropped; for a rebuilt prompt, all of them. Texts are the policy's own
            words, results the tools' whole outputs; rewards are not decided yet.
        hint: what else the environment says now (that the last turn is next, say), or "".
    """

    question: str
    turns: tuple[Turn, ...]
    hint: str


Rewriter: TypeAlias = Callable[[ContextRecord], str]


@dataclass(frozen=True, slots=True)
class ContextRule:
    """When the context is rewritten, and how.

    Attributes:
        name: one of ``RULES``.
        keep_turns: the last turns that window and summary keep whole, >= 1.
        trigger_tokens: rewrite only what would be longer than this; 0 rewrites as soon as the rule has anything to do.
            A context that would not fit is always rewritten.
        function: writes the summary, or the user message of the rebuilt prompt.
    """

    name: str = "append"
    keep_turns: int = 2
    trigger_tokens: int = 0
    function: Rewriter | None = None

    @property
    def rewrites(self) -> bool:
        """False for ``append``."""
        return self.name != "append"


def make_rule(name: str, keep_turns: int, trigger_tokens: int, function: str | None) -> ContextRule:
    """The rule of these options.

    Args:
        name: one of ``RULES``.
        keep_turns: >= 1.
        trigger_tokens: >= 0.
        function: ``"module:function"`` from a ``ContextRecord`` to text, for summary and rebuild; None for ``extract``.

    Raises:
        ConfigError: an option is out of range or belongs to another rule, or the function cannot be loaded.
    """
    if name not in RULES:
        raise ConfigError(f"context_rule is one of {', '.join(RULES)}, not {name!r}")
    if keep_turns < 1:
        raise ConfigError(f"context_turns is a whole number >= 1, not {keep_turns}")
    if trigger_tokens < 0:
        raise ConfigError(f"context_tokens is a whole number >= 0, not {trigger_tokens}")
    if name == "append" and trigger_tokens:
        raise ConfigError(
            f'context_tokens={trigger_tokens} says when a rule acts, and context_rule="append" never does; choose '
            f"{', '.join(RULES[1:])}"
        )
    if name in ("append", "window"):
        if function is not None:
            raise ConfigError(f'context_function belongs to context_rule="summary" or "rebuild", not to {name!r}')
        return ContextRule(name, keep_turns, trigger_tokens)
    default = summarise if name == "summary" else rebuild
    return ContextRule(name, keep_turns, trigger_tokens, default if function is None else _text_giver(function))


def summarise(record: ContextRecord) -> str:
    """The default summary: a line for each call with the beginning of what came back, or of what was said."""
    return "\n".join(["Earlier turns, in short:", *(line for turn in record.turns for line in _lines_on(turn))])


def rebuild(record: ContextRecord) -> str:
    """The default rebuilt prompt: the question, and a line for each call so far."""
    if not record.turns:
        return record.question
    lines = [line for turn in record.turns for line in _lines_on(turn)]
    return "\n".join([record.question, "", "Done so far:", *lines, *([record.hint] if record.hint else [])])


def _lines_on(turn: Turn) -> list[str]:
    if not turn.calls:
        return [f"- said: {_shortened(turn.text)}"]
    results: Sequence[str] = [result.content for result in turn.results] or [""] * len(turn.calls)
    return [
        f"- {call.name or 'an unreadable call'}({json.dumps(dict(call.arguments), ensure_ascii=False)}): "
        f"{_shortened(result)}"
        for call, result in zip(turn.calls, results, strict=True)
    ]


def _shortened(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _EXTRACT else f"{line[:_EXTRACT]} [...]"


@functools.lru_cache(maxsize=32)
def _text_giver(name: str) -> Rewriter:
    """The function of that name, checked to give text: one per name, so that rules of equal options are equal."""
    function = load_function(name, "context_function")
    require_arguments(function, f"context_function {name!r}", "the record")

    def write(record: ContextRecord) -> str:
        text = function(record)
        if not isinstance(text, str):
            raise ConfigError(f"context_function {name!r} gave {type(text).__name__}; expected text")
        return text

    return write
