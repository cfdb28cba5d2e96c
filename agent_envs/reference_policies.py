"""Policies to measure an environment against: one that knows everything, and several that know nothing.

A policy writes one turn, given the episode and dice, and keeps nothing between turns. The conformance suite borrows
their turns; ``benchmarks/reference_policies.py`` plays each of them on every id.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from agent_envs.data.names import Dice
from agent_envs.episode import EpisodeCore
from agent_envs.registry import Registry
from agent_envs.tasks.base import OracleTurn
from agent_envs.tools.base import Tool
from agent_envs.types import Episode, ToolCall

Policy: TypeAlias = Callable[[EpisodeCore[Any], Dice], "str | list[int]"]  # a turn's text, or its ids as sampled

REFERENCE_POLICIES: Registry[Policy] = Registry("reference policy")

WRONG_ANSWER = "I do not know."
_NAME = re.compile(r"(?:[A-Z][\w'-]*)(?: (?:of |the )?[A-Z][\w'-]*)*")
_NUMBER = re.compile(r"-?\d+(?:[.,]\d+)*")
_EXAMPLES: dict[str, Any] = {"string": "river", "integer": 1, "number": 1.5, "boolean": True, "array": [], "object": {}}


def oracle(core: EpisodeCore[Any], dice: Dice) -> str:
    """The task's own solution, a turn at a time; its last turn again where the episode goes on."""
    turns = core.task.oracle(core.item)
    return core.write_turn(turns[min(len(core.turns), len(turns) - 1)])


def random_tokens(core: EpisodeCore[Any], dice: Dice) -> list[int]:
    """Ids drawn evenly from the vocabulary, until one ends the turn or a budget does."""
    ids = [dice.below(core.tokenizer.vocab_size) for _ in range(core.max_new_tokens)]
    return ids[: core.turn_length(ids)]


def malformed(core: EpisodeCore[Any], dice: Dice) -> str:
    """A call that is broken in one of several ways."""
    return dice.choose(malformed_turns(core))


def answer_at_once(core: EpisodeCore[Any], dice: Dice) -> str:
    """Answers "yes", whatever was asked."""
    return core.write_turn(OracleTurn(answer="yes"))


def answer_without_tools(core: EpisodeCore[Any], dice: Dice) -> str:
    """A guess from the prompt alone: a name or a number that the question mentions."""
    return core.write_turn(OracleTurn(answer=guess(core.task.user_prompt(core.item), dice)))


REFERENCE_POLICIES.register("oracle", oracle)
REFERENCE_POLICIES.register("random-tokens", random_tokens)
REFERENCE_POLICIES.register("malformed", malformed)
REFERENCE_POLICIES.register("answer-at-once", answer_at_once)
REFERENCE_POLICIES.register("answer-without-tools", answer_without_tools)


def play(core: EpisodeCore[Any], policy: Policy, dice: Dice) -> Episode:
    """Plays an episode that has begun to its end, and gives its record."""
    while not core.done:
        turn = policy(core, dice)
        if not core.feed(core.encode_turn(turn) if isinstance(turn, str) else turn).turn_ended:
            core.end_turn()
    return core.snapshot()


def example_call(tool: Tool) -> ToolCall:
    """A call of a tool with made-up arguments of the types that its schema asks for."""
    properties: Mapping[str, Any] = tool.parameters.get("properties", {})
    required = tool.parameters.get("required", ())
    return ToolCall(tool.name, {name: _example(properties.get(name, {})) for name in required})


def malformed_turns(core: EpisodeCore[Any]) -> tuple[str, ...]:
    """Broken calls of every kind that the episode's format can spell: cut, doubled, garbled, unknown, ill-typed."""
    call = example_call(core.tools[0]) if core.tools else ToolCall("nothing", {"x": 1})
    whole, write = core.format.write_calls((call,)), core.format.write_calls
    half = len(whole) // 2
    texts = (
        whole[:half],
        whole[:half] * 2,
        whole[half:],
        whole.replace("{", "[").replace("(", "["),
        whole.replace('"', "'") + whole[:half],
        write((ToolCall("no_such_tool", dict(call.arguments)),)),
        write((ToolCall(call.name, {"no_such_argument": [None]}),)),
        write((ToolCall("", {}),)),
    )
    return tuple(dict.fromkeys(text for text in texts if text and text != whole))


def guess(question: str, dice: Dice) -> str:
    """One of the numbers in a question that has several, else one of the names, else "yes"."""
    sentence = question.strip().splitlines()[-1] if question.strip() else ""
    numbers = _NUMBER.findall(sentence)
    names = [name for name in _NAME.findall(sentence) if not sentence.startswith(name)]
    found = numbers if len(numbers) > 1 else names
    return dice.choose(found) if found else "yes"


def _example(schema: Mapping[str, Any]) -> Any:
    if schema.get("enum"):
        return schema["enum"][0]
    if "const" in schema:
        return schema["const"]
    for key in ("anyOf", "oneOf", "allOf"):
        if schema.get(key):
            return _example(schema[key][0])
    kind = schema.get("type", "string")
    return _EXAMPLES.get(kind if isinstance(kind, str) else kind[0], "river")
