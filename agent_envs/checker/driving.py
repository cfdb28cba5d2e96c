"""Ways to drive an episode whose tokens do not depend on how they are fed, and records as values that compare."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Sequence
from typing import Any

from agent_envs.episode import EpisodeCore
from agent_envs.types import Episode

_ARRAYS = ("tokens", "action_mask", "turn_ids", "rewards", "sampler_logprobs")
_VALUES = ("task_id", "seed", "turns", "segments", "events", "terminated", "truncated", "reason")


def random_stream(core: EpisodeCore[Any], texts: Sequence[str], seed: int, length: int) -> list[int]:
    """At least ``length`` ids as a random policy might sample them: whole turns, loose pieces, single random ids."""
    dice = random.Random(seed)
    ids: list[int] = []
    while len(ids) < length:
        choice = dice.random()
        if choice < 0.5:
            ids += core.encode_turn(dice.choice(texts))
        elif choice < 0.8:
            ids += core.tokenizer.encode_plain(dice.choice(texts))
        else:
            ids += [dice.randrange(core.tokenizer.vocab_size) for _ in range(dice.randrange(1, 6))]
    return ids


def logprob_of(position: int) -> float:
    """A made-up log-probability for the n-th sampled token, exact in float32."""
    return -(position % 64) / 64


def drive_by_token(core: EpisodeCore[Any], stream: Sequence[int]) -> Episode:
    """One id at a time."""
    for position, token_id in enumerate(stream):
        if core.done:
            break
        core.feed_one(token_id, logprob_of(position))
    return core.snapshot()


def drive_by_chunks(core: EpisodeCore[Any], stream: Sequence[int], seed: int) -> Episode:
    """Chunks of random sizes that do not care where turns end."""
    dice = random.Random(seed)
    at = 0
    while not core.done and at < len(stream):
        chunk = range(at, min(at + dice.randrange(1, 40), len(stream)))
        at += core.feed([stream[i] for i in chunk], [logprob_of(i) for i in chunk]).consumed
    return core.snapshot()


def turns_of(core: EpisodeCore[Any], stream: Sequence[int]) -> Iterator[list[int]]:
    """Whole turns, cut where a sampler would stop; the last may be cut short by the end of the stream."""
    at = 0
    while not core.done and at < len(stream):
        stop, turn = core.stop_checker(), list[int]()
        budget = core.max_new_tokens
        while len(turn) < budget and at < len(stream):
            turn.append(stream[at])
            at += 1
            if stop(turn[-1]):
                break
        yield turn


def drive_by_turns(core: EpisodeCore[Any], stream: Sequence[int]) -> Episode:
    """One turn at a time."""
    position = 0
    for turn in turns_of(core, stream):
        core.feed(turn, [logprob_of(i) for i in range(position, position + len(turn))])
        position += len(turn)
    return core.snapshot()


def plain(episode: Episode) -> dict[str, Any]:
    """The whole record as values that compare with ``==``."""
    record: dict[str, Any] = {name: getattr(episode, name).tolist() for name in _ARRAYS}
    record |= {name: getattr(episode, name) for name in _VALUES}
    record["sampler_logprobs"] = [None if math.isnan(value) else value for value in record["sampler_logprobs"]]
    return record | {"metrics": dict(episode.metrics)}
