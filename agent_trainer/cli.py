"""The command line: one module per command in ``agent_trainer.commands``; heavy imports wait inside the commands."""

from __future__ import annotations

import sys

import typer
from rich.console import Console
from rich.text import Text

from agent_envs.errors import AgentEnvError
from agent_trainer.commands.check import check
from agent_trainer.commands.demo import demo
from agent_trainer.commands.envs import envs
from agent_trainer.commands.eval import evaluate_model
from agent_trainer.commands.index import index
from agent_trainer.commands.play import play
from agent_trainer.commands.train import train

app = typer.Typer(
    name="agentr1",
    help="LLM-agent environments, and a trainer that learns on them.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
)
app.command("demo")(demo)
app.command("envs")(envs)
app.command("check")(check)
app.command("play")(play)
app.command("train")(train)
app.command("eval")(evaluate_model)
app.add_typer(index, name="index")


def main() -> None:
    """Runs the command line. An error of this project is one red line and exit code 2; a bug keeps its traceback."""
    try:
        app()
    except AgentEnvError as error:
        Console(stderr=True).print(Text.assemble(("error: ", "bold red"), (str(error), "red")), soft_wrap=True)
        sys.exit(2)


if __name__ == "__main__":
    main()
