"""Plays 100,000 turns of nonsense on every id: no crash, no failing tool, and memory that stays flat.

Usage: python benchmarks/fuzz_turns.py [--turns 100000] [--ids AgentR1/HotpotQA-v0 ...]

A turn is a good call, a call with random edits, tags of every format in disorder, any Unicode, a very long text, or
random ids. After each episode the record is checked. Memory is the process's resident size, free pages given back to
the system, looked at after a tenth of the turns (caches are warm by then) and at the end. Exit code 1 where a tool
failed or memory grew by more than 5 %.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import json
import math
import os
import random
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import gymnasium as gym
from rich.console import Console
from rich.progress import Progress

import agent_envs  # noqa: F401 - registers the ids
from agent_envs.envs import TurnEnv
from agent_envs.episode import EpisodeCore
from agent_envs.errors import MissingExtraError
from agent_envs.formats import FORMATS
from agent_envs.reference_policies import example_call, malformed_turns
from agent_envs.tasks.catalogue import TASKS
from agent_envs.types import EventKind, StopReason

ALLOWED_GROWTH = 0.05
TURNS_PER_VISIT = 100  # of one id before the next one: the ids share the process, so they share its leaks
TURNS_WITH_PYTHON = 10  # where a call starts a process, which costs ten times what all else does
_SOUP = (
    "<|im_end|>", "<|im_start|>", "<tool_response>", "</tool_response>", "<information>", "</information>",
    '{"name": "', '", "arguments": {', "}}", "{", "[", '"', "\\", "Action:", "Observation:", "Final Answer:",
    "\\boxed{", "```python\n", "```", "\n", "print(1)", "river", "1e999", "\ud83d", "<|channel|>", "<|call|>",
)  # fmt: skip

Writer = Callable[[EpisodeCore[Any], random.Random], "str | list[int]"]


def good_turn(core: EpisodeCore[Any], dice: random.Random) -> str:
    """A turn of the solution, or a call with made-up arguments."""
    if not core.tools or dice.random() < 0.5:
        return core.write_turn(dice.choice(list(core.task.oracle(core.item))))
    return core.format.write_calls((example_call(dice.choice(core.tools)),))


def edited_turn(core: EpisodeCore[Any], dice: random.Random) -> str:
    """A good or a broken turn with a few random edits."""
    text = good_turn(core, dice) if dice.random() < 0.5 else dice.choice(malformed_turns(core))
    for _ in range(dice.randrange(1, 6)):
        at, length = dice.randrange(len(text) + 1), dice.randrange(1, 9)
        edit = dice.randrange(3)
        if edit == 0:
            text = text[:at] + text[at + length :]
        elif edit == 1:
            text = text[:at] + text[at : at + length] * 2 + text[at + length :]
        else:
            text = text[:at] + dice.choice(_SOUP) + text[at:]
    return text


def tag_soup(core: EpisodeCore[Any], dice: random.Random) -> str:
    """Tags of every format, and what stands between them, in any order."""
    words = [*_SOUP, *(tag for name in FORMATS for tag in FORMATS.get(name).tags)]
    return "".join(dice.choice(words) for _ in range(dice.randrange(1, 30)))


def any_unicode(core: EpisodeCore[Any], dice: random.Random) -> str:
    """Code points of all of Unicode, surrogates included."""
    return "".join(chr(dice.randrange(sys.maxunicode + 1)) for _ in range(dice.randrange(0, 60)))


def huge_turn(core: EpisodeCore[Any], dice: random.Random) -> str:
    """A text far beyond every budget."""
    return dice.choice((tag_soup(core, dice), "x", "<", good_turn(core, dice))) * dice.randrange(500, 3000)


def random_ids(core: EpisodeCore[Any], dice: random.Random) -> list[int]:
    """Ids drawn from the vocabulary and a little beyond it."""
    beyond = core.tokenizer.vocab_size + 5
    return [dice.randrange(beyond) for _ in range(dice.randrange(1, 200))]


KINDS: dict[str, tuple[Writer, float]] = {
    "good": (good_turn, 0.15),
    "edited": (edited_turn, 0.4),
    "soup": (tag_soup, 0.2),
    "unicode": (any_unicode, 0.1),
    "huge": (huge_turn, 0.02),
    "ids": (random_ids, 0.13),
}


def fuzz_episode(env: TurnEnv, seed: int, counts: Counter[str]) -> None:
    """Plays an episode of random turns and checks what it leaves.

    Raises:
        AssertionError: the record contradicts itself, or a tool failed.
    """
    dice = random.Random(f"{env.core.env_id} {seed}")
    env.reset(seed=seed)
    total = 0.0
    while not env.core.done:
        kind = dice.choices(list(KINDS), [share for _, share in KINDS.values()])[0]
        turn = KINDS[kind][0](env.core, dice)
        if not isinstance(turn, str):
            turn = turn[: env.core.turn_length(turn)]
        _, reward, terminated, truncated, info = env.step(turn)
        total += reward
        counts[kind] += 1
        assert (terminated or truncated) == env.core.done, f"flags of seed {seed}"
        assert env.core.length <= env.core.budgets.max_context, f"context of seed {seed}"
        json.dumps(info, allow_nan=False)
        failures = [e.detail for e in env.core.events if e.kind is EventKind.TOOL_FAILURE]
        assert not failures, f"a tool failed in seed {seed} on {turn!r}: {failures}"
    episode = env.episode
    counts[f"ended: {episode.reason}"] += 1
    assert episode.reason is StopReason.ANSWERED or episode.truncated
    assert math.isclose(total, episode.total_reward, abs_tol=1e-6)
    assert int(episode.action_mask.sum()) == sum(turn.stop - turn.start for turn in episode.turns)
    assert all(math.isfinite(value) for value in episode.metrics.values())


def fuzz(ids: list[str], turns: int, first_seed: int = 0) -> Iterator[Counter[str]]:
    """Visits the ids in turn until so many turns have been played; gives the counts so far after each visit."""
    envs = {env_id: made for env_id in ids if (made := _made(env_id)) is not None}
    counts: Counter[str] = Counter({f"left out: {env_id}": 1 for env_id in ids if env_id not in envs})
    seeds = dict.fromkeys(envs, first_seed)
    while envs and turns_of(counts) < turns:
        for env_id, env in envs.items():
            before, quota = turns_of(counts), turns_in_a_visit(env)
            while turns_of(counts) < min(before + quota, turns):
                fuzz_episode(env, seeds[env_id], counts)
                seeds[env_id] += 1
            counts[f"turns of {env_id}"] += turns_of(counts) - before
            yield counts
    for env in envs.values():
        env.close()


def turns_in_a_visit(env: TurnEnv) -> int:
    """How many turns an id gets before it is the next one's."""
    return TURNS_WITH_PYTHON if any(tool.name == "python" for tool in env.core.tools) else TURNS_PER_VISIT


def turns_of(counts: Counter[str]) -> int:
    """How many turns were played."""
    return sum(counts[kind] for kind in KINDS)


def resident_mb() -> float:
    """The process's resident memory in MB, as Linux counts it, without what the allocator merely keeps."""
    gc.collect()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # glibc's; other libraries keep less
    if trim is not None:
        trim(0)
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def _made(env_id: str) -> TurnEnv | None:
    try:
        env = gym.make(env_id, level="turn").unwrapped
    except MissingExtraError:
        return None
    assert isinstance(env, TurnEnv)
    return env


def main() -> None:
    """Fuzzes, prints, keeps the figures, and fails where memory grew."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=100_000)
    parser.add_argument("--ids", nargs="+", default=[TASKS.get(name).env_id for name in TASKS])
    parser.add_argument("--seed", type=int, default=0, help="of the first episode")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/fuzz_turns.json"))
    arguments = parser.parse_args()
    console, start, warm = Console(), time.perf_counter(), None
    counts: Counter[str] = Counter()
    with Progress(console=console) as progress:
        bar = progress.add_task("turns", total=arguments.turns)
        for counts in fuzz(arguments.ids, arguments.turns, arguments.seed):
            progress.update(bar, completed=turns_of(counts))
            if warm is None and turns_of(counts) >= arguments.turns / 10:
                warm = resident_mb()
    end = resident_mb()
    growth = end / (warm or end) - 1
    result = {
        "turns": turns_of(counts),
        "counts": dict(sorted(counts.items())),
        "resident_mb_warm": round(warm or end, 1),
        "resident_mb_end": round(end, 1),
        "growth": round(growth, 4),
        "seconds": round(time.perf_counter() - start, 1),
    }
    console.print_json(json.dumps(result))
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.write_text(json.dumps(result, indent=2) + "\n")
    if growth > ALLOWED_GROWTH:
        console.print(f"memory grew by {growth:.1%}: more than {ALLOWED_GROWTH:.0%}")
        sys.exit(1)


if __name__ == "__main__":
    main()
