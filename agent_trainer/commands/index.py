"""``agentr1 index``: search indexes built, looked at, measured and served."""

from __future__ import annotations

import typer

from agent_trainer.commands.index_bench import bench
from agent_trainer.commands.index_build import build
from agent_trainer.commands.index_info import info
from agent_trainer.commands.index_serve import serve

index = typer.Typer(
    help="Build, look at, measure and serve search indexes.", no_args_is_help=True, rich_markup_mode="markdown"
)
index.command("build")(build)
index.command("info")(info)
index.command("bench")(bench)
index.command("serve")(serve)
