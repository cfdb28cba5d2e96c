"""``agentr1 demo``: the whole story on a laptop, in minutes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from agent_trainer.commands.extras import require_train_extra

_INTERRUPTED = 130  # the shell's own code for Ctrl-C


def demo(
    overrides: Annotated[
        list[str] | None,
        typer.Argument(help="Options of the recipe hotpotqa_demo as key=value.", metavar="KEY=VALUE"),
    ] = None,
    out: Annotated[
        Path,
        typer.Option(help="Where to write. A folder with something in it is left alone: OUT-2, OUT-3, ... instead."),
    ] = Path("runs/demo"),
    seed: Annotated[int, typer.Option(help="Of training; the held-out questions are the same for every seed.")] = 0,
    updates: Annotated[int | None, typer.Option(min=1, help="Optimizer steps; the recipe's by default.")] = None,
    questions: Annotated[int, typer.Option(min=1, max=600, help="Held-out questions to play before and after.")] = 600,
    policy: Annotated[
        Path | None,
        typer.Option(
            help="The folder of another policy to begin with; the one that comes with the package by default."
        ),
    ] = None,
) -> None:
    """Watch a small language model learn to search and answer: evaluate, train with GRPO, evaluate again.

    The policy that comes with the package (a few million parameters) knows how a search and an answer are written, and
    often gets them wrong. It plays held-out questions, learns by playing others, and plays the held-out ones again:
    minutes on two CPU cores, without a GPU or a network.

    The output folder gets curve.png, before_after.html (the same questions before and after, coloured by who wrote
    what), summary.md, the trained model, every episode as a line of JSON, and logs for TensorBoard. Ctrl-C stops and
    keeps what is there.

    Examples:
    agentr1 demo

    agentr1 demo --seed 1 --out runs/demo-seed-1

    agentr1 demo --updates 20 --questions 100 learning_rate=1e-3
    """
    require_train_extra("agentr1 demo")
    from agent_trainer.demo import POLICY_FOLDER
    from agent_trainer.demo.run import run_demo

    try:
        run_demo(out, seed, updates, questions, policy or POLICY_FOLDER, overrides or ())
    except KeyboardInterrupt:
        raise typer.Exit(_INTERRUPTED) from None
