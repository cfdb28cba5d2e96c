"""What training shows while it runs: a bar with the latest scores, and a line on disk per log."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from agent_trainer.records import JsonLinesWriter

_SHOWN = ("reward", "em")


class TrainingBar(TrainerCallback):  # type: ignore[misc]
    """Moves a bar on by one per update and shows the latest training scores beside it."""

    def __init__(self, progress: Progress) -> None:
        """Draws on a progress display that somebody else starts and stops."""
        self._progress = progress
        self._bar = progress.add_task("training", total=None)

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Sets the bar's length."""
        self._progress.update(self._bar, total=state.max_steps, completed=state.global_step)

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """One update is done."""
        self._progress.update(self._bar, completed=state.global_step)

    def on_log(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        logs: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        """Shows the scores."""
        scores = [f"{name} {logs[name]:.3f}" for name in _SHOWN if logs and name in logs]
        if scores:
            self._progress.update(self._bar, description=", ".join(["training", *scores]))


class HistoryFile(TrainerCallback):  # type: ignore[misc]
    """Writes every log as a line, on disk at once: the numbers survive whatever ends the run."""

    def __init__(self, writer: JsonLinesWriter) -> None:
        """Writes to a file that somebody else opens and closes."""
        self._writer = writer

    def on_log(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """Writes the log that the state has just taken in."""
        self._writer.write(state.log_history[-1])


@contextmanager
def training_bar(console: Console) -> Iterator[TrainingBar]:
    """A bar on the console for as long as the context lasts, whatever ends it."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console) as progress:
        yield TrainingBar(progress)


@contextmanager
def history_file(path: Path) -> Iterator[HistoryFile]:
    """A file of logs, begun anew; its folder is made."""
    with JsonLinesWriter(path) as writer:
        yield HistoryFile(writer)
