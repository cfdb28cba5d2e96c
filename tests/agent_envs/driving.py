"""Random policies whose tokens do not depend on how they are fed: the script of an episode, for equivalence tests."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from typing import Any

from agent_envs.episode import EpisodeCore
from agent_envs.types import Episode

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


def random_stream(core: EpisodeCore[Any], seed: int, length: int = 4000) -> list[int]:
    """Ids as a random policy might sample them: pieces of turns, single random ids, ends of turns."""
    dice = random.Random(seed)
    ids: list[int] = []
    while len(ids) < length:
        choice = dice.random()
        if choice < 0.5:
            ids += core.encode_turn(dice.choice(TURN_TEXTS))
        elif choice < 0.8:
            ids += core.tokenizer.encode_plain(dice.choice(TURN_TEXTS))
        else:
            ids += [dice.randrange(core.tokenizer.vocab_size) for _ in range(dice.randrange(1, 6))]
    return ids


def logprob_of(position: int) -> float:
    """A made-up log-probability for the n-th sampled token, exact in float32."""
    return -(position % 64) / 64


def drive_by_token(core: EpisodeCore[Any], stream: list[int]) -> Episode:
    """One id at a time."""
    for position, token_id in enumerate(stream):
        if core.done:
            break
        core.feed_one(token_id, logprob_of(position))
    return core.snapshot()


def drive_by_chunks(core: EpisodeCore[Any], stream: list[int], seed: int) -> Episode:
    """Chunks of random sizes that do not care where turns end."""
    dice = random.Random(seed)
    at = 0
    while not core.done:
        chunk = range(at, min(at + dice.randrange(1, 40), len(stream)))
        at += core.feed([stream[i] for i in chunk], [logprob_of(i) for i in chunk]).consumed
    return core.snapshot()


def turns_of(core: EpisodeCore[Any], stream: list[int]) -> Iterator[list[int]]:
    """Whole turns, cut where a sampler would stop."""
    at = 0
    while not core.done:
        stop, turn = core.stop_checker(), []
        budget = core.max_new_tokens
        while len(turn) < budget:
            turn.append(stream[at])
            at += 1
            if stop(turn[-1]):
                break
        yield turn


def drive_by_turns(core: EpisodeCore[Any], stream: list[int]) -> Episode:
    """One turn at a time."""
    position = 0
    for turn in turns_of(core, stream):
        core.feed(turn, [logprob_of(i) for i in range(position, position + len(turn))])
        position += len(turn)
    return core.snapshot()


def plain(episode: Episode) -> dict[str, Any]:
    """The whole record as values that compare with ``==``."""
    arrays = ("tokens", "action_mask", "turn_ids", "rewards", "sampler_logprobs")
    record: dict[str, Any] = {name: getattr(episode, name).tolist() for name in arrays}
    for name in ("task_id", "seed", "turns", "segments", "events", "terminated", "truncated", "reason"):
        record[name] = getattr(episode, name)
    record["sampler_logprobs"] = [None if math.isnan(value) else value for value in record["sampler_logprobs"]]
    return record | {"metrics": dict(episode.metrics)}
