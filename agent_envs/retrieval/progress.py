"""What a long build says about itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

# Called with the stage, how much of it is done, and how much there is (None where that isn't known yet).
Progress: TypeAlias = Callable[[str, int, int | None], None]


def silent(stage: str, done: int, total: int | None) -> None:
    """Says nothing."""
