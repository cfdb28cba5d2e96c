"""An episode as text that a person can read, coloured by who wrote what."""

from __future__ import annotations

from agent_envs.tokenizers import Tokenizer
from agent_envs.types import Episode

PROMPT, POLICY, ENVIRONMENT = "\x1b[2m", "\x1b[1;32m", "\x1b[36m"
_RESET = "\x1b[0m"


def transcript(episode: Episode, tokenizer: Tokenizer, colour: bool = True) -> str:
    """The episode's tokens decoded, by origin: the prompt dim, the policy green, the environment cyan.

    Control characters in the texts are spelled out, so that a document cannot drive the terminal.
    """
    parts = []
    for number, segment in enumerate(episode.segments):
        label = "prompt" if number == 0 else f"context written anew, segment {number + 1}"
        parts.append((PROMPT, label, segment.start, segment.start + segment.prompt_length))
    for turn in episode.turns:
        parts.append((POLICY, f"policy, turn {turn.index + 1}", turn.start, turn.stop))
        if turn.feedback_stop > turn.stop:
            parts.append((ENVIRONMENT, "environment", turn.stop, turn.feedback_stop))
    written = max(stop for _, _, _, stop in parts)
    if written < len(episode.tokens):
        parts.append((POLICY, f"policy, turn {len(episode.turns) + 1} (unfinished)", written, len(episode.tokens)))
    parts.sort(key=lambda part: part[2])
    lines = []
    for style, label, start, stop in parts:
        text = printable(tokenizer.decode(episode.tokens[start:stop].tolist()))
        lines.append(f"{style}[{label}]\n{text}{_RESET}" if colour else f"[{label}]\n{text}")
    if episode.reason is not None:
        scores = ", ".join(f"{name} {value:g}" for name, value in episode.metrics.items())
        lines.append(f"[end: {episode.reason}; {scores}]")
    return "\n".join(lines) + "\n"


def printable(text: str) -> str:
    """The text with control characters other than line breaks and tabs spelled out."""
    return "".join(c if c in "\n\t" or (c >= " " and not "\x7f" <= c <= "\x9f") else f"\\x{ord(c):02x}" for c in text)
