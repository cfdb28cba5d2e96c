"""What a run leaves for a person to read: a picture of its curves, a page of episodes, a summary of its numbers."""

from __future__ import annotations

from agent_trainer.report.curves import HeldOut, plot_curves
from agent_trainer.report.episode_page import EpisodePair, before_after_page, read_pairs
from agent_trainer.report.summary import RunSummary, versions, write_summary

__all__ = [
    "EpisodePair",
    "HeldOut",
    "RunSummary",
    "before_after_page",
    "plot_curves",
    "read_pairs",
    "versions",
    "write_summary",
]
