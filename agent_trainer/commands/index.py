"""``agentr1 index``: search indexes built, served and measured."""

from __future__ import annotations

import typer

index = typer.Typer(
    help="Build, inspect, serve and measure search indexes.", no_args_is_help=True, rich_markup_mode="markdown"
)
