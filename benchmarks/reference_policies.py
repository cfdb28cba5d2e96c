"""What an oracle earns on every id, and what policies earn that know nothing: the table of docs/environments.md.

Usage: python benchmarks/reference_policies.py [--episodes 50] [--ids AgentR1/HotpotQA-v0 ...]

Every id is played with its defaults, on the seeds 0, 1, 2, ...; ids whose optional package is missing are left out by
name. The table goes between two marks in the page, the figures to benchmarks/results/reference_policies.json.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import gymnasium as gym
from rich.console import Console
from rich.progress import Progress

import agent_envs  # noqa: F401 - registers the ids
from agent_envs.data.names import Dice
from agent_envs.errors import MissingExtraError
from agent_envs.reference_policies import REFERENCE_POLICIES, play
from agent_envs.tasks.catalogue import TASKS
from agent_envs.types import Episode

BEGIN, END = "<!-- reference-policies: begin -->", "<!-- reference-policies: end -->"
VARIANTS = {"AgentR1/BFCL-v0": ({"category": "multi_turn_base"},)}  # another kind of episode than the default's
SCORES = ("em", "correct", "accuracy", "success", "solved", "score")  # the first of these that a task has


def all_ids() -> list[str]:
    """The ids of the package, in the order of its catalogue."""
    return [TASKS.get(name).env_id for name in TASKS]


def play_policy(env_id: str, options: dict[str, Any], policy: str, episodes: int, progress: Progress) -> dict[str, Any]:
    """Plays the first seeds of an id with a policy, and sums up."""
    env = gym.make(env_id, level="turn", **options)
    core = env.unwrapped.core  # type: ignore[attr-defined]
    bar = progress.add_task(f"{env_id} {policy}", total=episodes)
    played, start = [], time.perf_counter()
    for seed in range(episodes):
        env.reset(seed=seed)
        played.append(play(core, REFERENCE_POLICIES.get(policy), Dice("reference", env_id, policy, str(seed))))
        progress.advance(bar)
    env.close()
    progress.remove_task(bar)
    name = " ".join([f"`{env_id}`", *(f"{key}={value}" for key, value in options.items())])
    return summary(name, policy, played) | {"seconds": round(time.perf_counter() - start, 2)}


def summary(name: str, policy: str, played: Sequence[Episode]) -> dict[str, Any]:
    """Means over the episodes, and what ended them."""
    score = next((name for name in SCORES if name in played[0].metrics), None)
    reasons = Counter(str(episode.reason) for episode in played)
    return {
        "environment": name,
        "policy": policy,
        "episodes": len(played),
        "return": round(statistics.fmean(episode.total_reward for episode in played), 3),
        "score": score,
        "score_mean": None if score is None else round(statistics.fmean(e.metrics[score] for e in played), 3),
        "turns": round(statistics.fmean(len(episode.turns) for episode in played), 2),
        "reasons": dict(reasons.most_common()),
    }


def table(rows: Sequence[dict[str, Any]]) -> str:
    """The rows as Markdown."""
    lines = ["| environment | policy | return | score | turns | ended by |", "|---|---|---|---|---|---|"]
    for row in rows:
        score = "" if row["score"] is None else f"{row['score']} {row['score_mean']:.3f}"
        reasons = ", ".join(f"`{reason}` {count}" for reason, count in row["reasons"].items())
        first = row["environment"] if row["policy"] == next(iter(REFERENCE_POLICIES)) else ""
        lines.append(f"| {first} | {row['policy']} | {row['return']:.3f} | {score} | {row['turns']:.2f} | {reasons} |")
    return "\n".join(lines)


def with_table(page: str, rows: Sequence[dict[str, Any]], episodes: int) -> str:
    """The page with the table between its marks.

    Raises:
        ValueError: a mark is missing.
    """
    head, begin, rest = page.partition(BEGIN)
    _, end, tail = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"the page holds no {BEGIN} ... {END}: add the two lines where the table belongs")
    said = f"Means of {episodes} episodes each (`python benchmarks/reference_policies.py --episodes {episodes}`):"
    return f"{head}{BEGIN}\n\n{said}\n\n{table(rows)}\n\n{END}{tail}"


def main() -> None:
    """Plays, and writes the page and the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--episodes", type=int, default=50, help="per id and policy")
    parser.add_argument("--ids", nargs="+", default=all_ids())
    parser.add_argument("--page", type=Path, default=Path("docs/environments.md"))
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/reference_policies.json"))
    arguments = parser.parse_args()
    console, rows, missing = Console(), [], {}
    with Progress(console=console) as progress:
        for env_id in arguments.ids:
            try:
                for options in ({}, *VARIANTS.get(env_id, ())):
                    rows += [
                        play_policy(env_id, options, name, arguments.episodes, progress) for name in REFERENCE_POLICIES
                    ]
            except MissingExtraError as error:
                missing[env_id] = str(error)
    for env_id, error in missing.items():
        console.print(f"left out {env_id}: {error}")
    arguments.page.write_text(with_table(arguments.page.read_text(), rows, arguments.episodes))
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.write_text(json.dumps(rows, indent=2) + "\n")
    console.print(f"{len(rows)} rows in {arguments.page} and {arguments.out}")


if __name__ == "__main__":
    main()
