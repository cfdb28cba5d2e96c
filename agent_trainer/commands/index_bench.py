"""``agentr1 index bench``: recall of gold passages and queries per second."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from agent_envs.errors import ConfigError
from agent_envs.options import parse_assignments

if TYPE_CHECKING:
    from agent_envs.retrieval.measure import Measured


def bench(  # noqa: PLR0913 - a command's arguments are its options
    places: Annotated[
        list[str],
        typer.Argument(help="Index folders or servers' addresses; A,B fuses two of them.", metavar="INDEX..."),
    ],
    env_id: Annotated[str, typer.Option("--env", help="The environment whose questions to ask.")],
    option: Annotated[
        list[str] | None, typer.Option("-o", "--option", help="An option of the environment, as key=value.")
    ] = None,
    questions: Annotated[int | None, typer.Option("-n", min=1, help="How many; all where not given.")] = None,
    k: Annotated[str, typer.Option("-k", help="The ranks to look at recall at.")] = "1,5,10",
    batch: Annotated[int, typer.Option(min=1, help="Queries of one search.")] = 64,
    model: Annotated[str | None, typer.Option(help="The encoder's folder, if not where the index folders say.")] = None,
    output: Annotated[Path | None, typer.Option("--json", help="A file for the figures.")] = None,
) -> None:
    """Measure indexes on a task's questions: the share of gold passages among the first k, and queries per second.

    Such as:

    agentr1 index bench a/bm25 a/flat a/bm25,a/flat --env AgentR1/HotpotQA-v0 -o dataset=dev.json
    """
    from agent_envs.retrieval.index import has_dense_folder, open_index
    from agent_envs.retrieval.measure import measure
    from agent_trainer.commands.index_corpus import task_questions

    ks = _ranks(k)
    asked = task_questions(env_id, parse_assignments(option or []))[:questions]
    results: dict[str, Measured] = {}
    for place in places:
        retriever = open_index(place, model if has_dense_folder(place) else None)
        results[place] = measure(retriever, asked, ks, batch)
    Console().print(_table(results, env_id, len(asked), ks))
    if output is not None:
        figures: dict[str, Any] = {place: asdict(result) for place, result in results.items()}
        output.parent.mkdir(parents=True, exist_ok=True)
        output.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")


def _ranks(text: str) -> list[int]:
    try:
        ranks = [int(rank) for rank in text.split(",")]
    except ValueError:
        ranks = [0]
    if min(ranks) < 1:
        raise ConfigError(f"-k is a list of whole numbers >= 1, such as 1,5,10, not {text!r}")
    return ranks


def _table(results: dict[str, Measured], env_id: str, questions: int, ks: list[int]) -> Table:
    title = f"{questions} questions of {env_id}"
    table = Table("index", *(f"recall@{k}" for k in ks), "queries/s", title=title, title_justify="left", box=None)
    for place, result in results.items():
        table.add_row(escape(place), *(f"{result.recall[k]:.3f}" for k in ks), f"{result.queries_per_s:,.0f}")
    return table
