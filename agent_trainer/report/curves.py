"""The curves of a run as one picture: reward and exact match above, how the policy behaves below.

Colours are Okabe and Ito's, which people with any common colour blindness can tell apart; what lies in one panel also
differs in its line style.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from agent_envs.errors import MissingExtraError
from agent_trainer.statistics import Estimate

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

_BLUE, _ORANGE, _GREEN, _PURPLE = "#0072B2", "#D55E00", "#009E73", "#CC79A7"
_DASHED = (0, (5, 1.6))


@dataclass(frozen=True, slots=True)
class HeldOut:
    """One evaluation on held-out questions.

    Attributes:
        label: such as "before training".
        updates: how many the policy had seen.
        em: the share of exact matches with its 95 % interval.
        questions: how many were played.
    """

    label: str
    updates: int
    em: Estimate
    questions: int


@dataclass(frozen=True, slots=True)
class _Line:
    """A number of the log, and how it is drawn."""

    key: str
    label: str
    colour: str
    dash: Any = "-"
    factor: float = 1.0


_SCORES = (_Line("reward", "reward", _ORANGE), _Line("em", "exact match", _BLUE, _DASHED))
_BEHAVIOUR = (
    (
        "How an episode goes",
        "per episode",
        (_Line("turns", "turns", _GREEN), _Line("tool_calls", "searches", _PURPLE, _DASHED)),
    ),
    (
        "What goes wrong",
        "share, %",
        (
            _Line("malformed_share", "malformed (of calls)", _ORANGE, factor=100),
            _Line("truncated_share", "cut short (of episodes)", _BLUE, _DASHED, factor=100),
        ),
    ),
    ("How undecided the policy is", "entropy, nats per token", (_Line("entropy", "entropy", _GREEN),)),
)


def plot_curves(
    history: Sequence[Mapping[str, Any]], evaluations: Sequence[HeldOut], path: Path, title: str = "Training"
) -> None:
    """Draws a run as a PNG file; its folder is made.

    Args:
        history: a mapping per log, as in the trainer's ``state.log_history``; those without "step" or a known number
            are passed over.
        evaluations: drawn as points with their 95 % intervals.
        path: of the PNG file.
        title: over the whole picture.

    Raises:
        MissingExtraError: matplotlib is not installed.
    """
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingExtraError("curves are drawn with matplotlib: pip install 'agent-r1[train]'") from error

    figure = Figure(figsize=(11, 7.4), dpi=140, layout="constrained")
    FigureCanvasAgg(figure)  # a canvas of its own: no window, and pyplot's global state stays as it is
    figure.suptitle(title, fontsize=14, fontweight="bold")
    _draw(figure, history, evaluations)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)


def running_mean(values: NDArray[np.float64], width: int) -> NDArray[np.float64]:
    """The mean over a window centred on each value; the window is cut at both ends.

    Args:
        values: float64 ``[N]``.
        width: of the window, odd, >= 1.
    """
    sums = np.concatenate([[0.0], np.cumsum(values)])
    index, half = np.arange(len(values)), width // 2
    low, high = np.maximum(index - half, 0), np.minimum(index + half + 1, len(values))
    means: NDArray[np.float64] = (sums[high] - sums[low]) / (high - low)
    return means


def _draw(figure: Figure, history: Sequence[Mapping[str, Any]], evaluations: Sequence[HeldOut]) -> None:
    grid = figure.add_gridspec(2, len(_BEHAVIOUR), height_ratios=(1.55, 1))
    top = figure.add_subplot(grid[0, :])
    width = _draw_lines(top, history, _SCORES, "of training episodes, sampled")
    _draw_evaluations(top, evaluations)
    low, high = top.get_ylim()
    top.set_ylim(min(-0.03, low), max(1.03, high))
    _finish(top, "Is it learning?", "reward and exact match")
    for column, (title, unit, lines) in enumerate(_BEHAVIOUR):
        axes = figure.add_subplot(grid[1, column], sharex=top)
        _draw_lines(axes, history, lines)
        axes.set_ylim(0, max(1e-3, axes.get_ylim()[1]) * 1.12)
        _finish(axes, title, unit)
    if width > 1:
        note = f"Thin lines: each update. Thick lines: the mean of the {width} updates around."
        figure.supxlabel(note, fontsize=9, color="0.35")


def _draw_lines(axes: Axes, history: Sequence[Mapping[str, Any]], lines: Sequence[_Line], of: str = "") -> int:
    """Draws numbers of the log raw and smoothed; gives the width of the smoothing, in updates."""
    width = 1
    for line in lines:
        logged = [log for log in history if "step" in log and line.key in log]
        if not logged:
            continue
        # What is logged at step s was played by the policy of s - 1 updates.
        updates = np.array([log["step"] - 1 for log in logged], dtype=np.float64)
        values = np.array([log[line.key] for log in logged], dtype=np.float64) * line.factor
        width = max(1, len(values) // 16 * 2 + 1)
        axes.plot(updates, values, color=line.colour, alpha=0.3, linewidth=0.9)
        smooth = running_mean(values, width)
        label = f"{line.label} {of}".strip()
        axes.plot(updates, smooth, color=line.colour, linestyle=line.dash, linewidth=2.2, label=label)
    return width


def _draw_evaluations(axes: Axes, evaluations: Sequence[HeldOut]) -> None:
    if not evaluations:
        return
    means = np.array([held_out.em.mean for held_out in evaluations])
    below = means - [held_out.em.low for held_out in evaluations]
    above = [held_out.em.high for held_out in evaluations] - means
    axes.errorbar(
        [held_out.updates for held_out in evaluations],
        means,
        yerr=np.stack([below, above]),
        fmt="D",
        color="black",
        markersize=7,
        capsize=6,
        elinewidth=1.8,
        zorder=5,
        clip_on=False,
        label=f"exact match on {evaluations[0].questions} held-out questions, greedy, 95 % interval",
    )
    last = max(held_out.updates for held_out in evaluations)
    for held_out in evaluations:
        at_end = held_out.updates == last and last > 0
        has_room_below = held_out.em.low > 0.12
        axes.annotate(
            f"{held_out.label}: {held_out.em.mean:.2f}",
            (held_out.updates, held_out.em.low if has_room_below else held_out.em.high),
            xytext=(6 if at_end else -6, -17 if has_room_below else 9),
            textcoords="offset points",
            ha="right" if at_end else "left",
            fontsize=10,
            fontweight="bold",
            bbox={"boxstyle": "round,pad=0.2", "facecolor": "white", "edgecolor": "none", "alpha": 0.8},
            zorder=6,
        )


def _finish(axes: Axes, title: str, unit: str) -> None:
    axes.set_title(title, loc="left", fontsize=11)
    axes.set_xlabel("updates made")
    axes.set_ylabel(unit)
    axes.grid(alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)
    axes.margins(x=0.02)
    if len(axes.get_legend_handles_labels()[0]) > 1:
        axes.legend(fontsize=9, loc="best", framealpha=0.85)
