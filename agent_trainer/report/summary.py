"""A run's numbers: ``summary.json`` for programs, ``summary.md`` for people."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from agent_trainer.evaluate import Evaluation
from agent_trainer.records import plain
from agent_trainer.statistics import Estimate

_PACKAGES = ("agent-r1", "gymnasium", "numpy", "torch", "transformers", "trl", "accelerate", "tokenizers", "bm25s")
_ROWS = (
    ("em", "exact match"),
    ("f1", "F1"),
    ("reward", "reward"),
    ("support_recall", "supporting facts found"),
    ("turns", "turns"),
    ("tool_calls", "tool calls"),
)


@dataclass(frozen=True, slots=True)
class RunSummary:
    """What a run did and what came of it.

    Attributes:
        title: of the Markdown page.
        before: held-out questions before training.
        after: the same questions after it.
        updates: optimizer steps made.
        seed: of the training run.
        seconds: wall clock by phase, in the order in which they ran.
        settings: the options of the run as plain data.
    """

    title: str
    before: Evaluation
    after: Evaluation
    updates: int
    seed: int
    seconds: Mapping[str, float]
    settings: Mapping[str, Any] = field(default_factory=dict)

    @property
    def intervals_apart(self) -> bool:
        """True where the 95 % intervals of the exact match before and after do not touch, and it rose."""
        return self.after.em.low > self.before.em.high


def versions() -> dict[str, str]:
    """The versions of what the numbers depend on; packages that are not installed are left out."""
    found = {"python": platform.python_version(), "platform": platform.platform(), "cpus": str(os.cpu_count())}
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def write_summary(summary: RunSummary, folder: Path) -> None:
    """Writes ``summary.json`` and ``summary.md``; the folder is made."""
    folder.mkdir(parents=True, exist_ok=True)
    data = {
        "title": summary.title,
        "em_before": _triple(summary.before.em),
        "em_after": _triple(summary.after.em),
        "intervals_apart": summary.intervals_apart,
        "questions": summary.after.questions,
        "updates": summary.updates,
        "seed": summary.seed,
        "seconds": {**summary.seconds, "total": sum(summary.seconds.values())},
        "before": summary.before.to_json(),
        "after": summary.after.to_json(),
        "settings": dict(summary.settings),
        "versions": versions(),
    }
    text = json.dumps(plain(data), indent=2, ensure_ascii=False, allow_nan=False)
    (folder / "summary.json").write_text(text + "\n", encoding="utf-8")
    (folder / "summary.md").write_text(_markdown(summary), encoding="utf-8")


def comparison_rows(before: Evaluation, after: Evaluation) -> list[tuple[str, Estimate, Estimate]]:
    """What both evaluations measured, by name, before and after."""
    rows = [
        (label, before.metrics[name], after.metrics[name])
        for name, label in _ROWS
        if name in before.metrics and name in after.metrics
    ]
    return [
        *rows,
        ("malformed, of calls", before.malformed_share, after.malformed_share),
        ("truncated, of episodes", before.truncated_share, after.truncated_share),
    ]


def _triple(value: Estimate) -> dict[str, float]:
    return {"mean": value.mean, "low": value.low, "high": value.high}


def _markdown(summary: RunSummary) -> str:
    verdict = (
        "the 95 % intervals of the exact match lie apart"
        if summary.intervals_apart
        else ("the exact match did not rise beyond what its 95 % intervals leave open")
    )
    failed = summary.before.failed + summary.after.failed
    lines = [
        f"# {summary.title}",
        "",
        f"{summary.after.questions} held-out questions of `{summary.after.env_id}`, {summary.updates} updates, "
        f"seed {summary.seed}: {verdict}."
        + (f" {failed} episodes failed in the infrastructure and are left out." if failed else ""),
        "",
        "| mean [95 % interval] | before | after |",
        "|---|---|---|",
        *(
            f"| {label} | {before} | {after} |"
            for label, before, after in comparison_rows(summary.before, summary.after)
        ),
        "",
        "| phase | seconds |",
        "|---|---|",
        *(f"| {phase} | {seconds:.1f} |" for phase, seconds in summary.seconds.items()),
        f"| total | {sum(summary.seconds.values()):.1f} |",
        "",
        "| setting | value |",
        "|---|---|",
        *(f"| {name} | {_cell(value)} |" for name, value in summary.settings.items()),
        "",
        "Versions: " + ", ".join(f"{name} {number}" for name, number in versions().items()) + ".",
    ]
    return "\n".join(lines) + "\n"


def _cell(value: Any) -> str:
    """A value in a cell of a table: in code marks, with what would end the cell or the mark replaced."""
    text = value if isinstance(value, str) else json.dumps(plain(value), ensure_ascii=False)
    return "`" + text.replace("`", "'").replace("|", "\\|").replace("\n", " ") + "`"
