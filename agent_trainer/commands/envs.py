"""``agentr1 envs``: which environments there are, and what one takes."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

import agent_envs  # noqa: F401 - registers the ids
from agent_envs.options import EpisodeOptions, describe_options
from agent_envs.registry import Registry
from agent_envs.tasks.catalogue import TASKS, TaskEntry


def envs(
    env_id: Annotated[str | None, typer.Argument(help="An id, to see what gym.make takes for it.")] = None,
) -> None:
    """List the environments with a line each, or the options of one.

    Examples: agentr1 envs, agentr1 envs AgentR1/HotpotQA-v0
    """
    console = Console(soft_wrap=False)
    if env_id is not None:
        console.print(_options_table(entry_of(env_id)))
        return
    table = Table("id", "what it is", box=None, pad_edge=False)
    for name in TASKS:
        table.add_row(TASKS.get(name).env_id, TASKS.get(name).summary)
    console.print(table)


def entry_of(env_id: str) -> TaskEntry:
    """The entry of an id.

    Raises:
        UnknownNameError: there is none; the message lists the ids.
    """
    by_id: Registry[TaskEntry] = Registry("environment")
    for name in TASKS:
        by_id.register(TASKS.get(name).env_id, TASKS.get(name))
    return by_id.get(env_id)


def _options_table(entry: TaskEntry) -> Table:
    table = Table(
        "option", "default", "what it is", title=f"{entry.env_id}: {entry.summary}", title_justify="left", box=None
    )
    for option in [*describe_options(entry.options), *describe_options(EpisodeOptions)]:
        default = repr(entry.defaults.get(option.name, option.default))
        shown = default if len(default) < 24 else default[:20] + " ..."
        table.add_row(option.name, escape(shown), escape(option.help))
    return table
