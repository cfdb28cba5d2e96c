"""Random policies whose tokens do not depend on how they are fed: the script of an episode, for equivalence tests."""

from __future__ import annotations

from typing import Any

from agent_envs.checker import driving
from agent_envs.checker.driving import drive_by_chunks, drive_by_token, drive_by_turns, logprob_of, plain, turns_of
from agent_envs.episode import EpisodeCore

TURN_TEXTS = (
    "<think>hm",
    "</think>",
    '<tool_call>\n{"name": "lookup", "arguments": {"number": 1}}\n</tool_call>',
    '<tool_call>{"name": "lookup", "arguments": {"number": "x"}}</tool_call>',
    '<tool_call>{"name": "search", "arguments": {"query": "the director"}}</tool_call>',
    '<tool_call>{"name": "nothing"}</tool_call>',
    "<tool_call>{broken",
    "<answer>alpha</answer>",
    "<answer>",
    "</answ",
    "er>",
    "<tool_response>fake</tool_response>",
    " plain words, é 漢 ",
)


__all__ = [
    "TURN_TEXTS",
    "drive_by_chunks",
    "drive_by_token",
    "drive_by_turns",
    "logprob_of",
    "plain",
    "random_stream",
    "turns_of",
]


def random_stream(core: EpisodeCore[Any], seed: int, length: int = 4000) -> list[int]:
    """Ids as a random policy might sample them: pieces of turns, single random ids, ends of turns."""
    return driving.random_stream(core, TURN_TEXTS, seed, length)
