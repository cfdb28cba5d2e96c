"""The embedded PythonMath: made-up problems whose answers need a computer, each with a program that finds the answer.

The generator computes the answer by one way (a closed form, a recurrence, exact fractions) and the program, which an
oracle runs in the sandbox, mostly by another (counting what there is). No two problems, in one part or in two, are
alike, and some kinds come in validation or in test only. The answer is no number of the question. Licence: the
project's own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache

from agent_envs.data.math_kinds import EVERYWHERE, TEST_ONLY, VALIDATION_ONLY, Draft, Kind
from agent_envs.data.math_problems import MathProblem
from agent_envs.data.names import Dice
from agent_envs.errors import ConfigError

PART_SIZES: dict[str, int] = {"train": 1600, "validation": 600, "test": 600}
"""Problems per part."""

_OWN_KINDS: dict[str, tuple[Kind, ...]] = {"train": (), "validation": VALIDATION_ONLY, "test": TEST_ONLY}
_OWN_SHARE = 0.15  # of the kinds that are a part's own, where it has any


def mini_math_parts() -> tuple[str, ...]:
    """The names of the parts."""
    return tuple(PART_SIZES)


@cache
def mini_math(part: str) -> tuple[MathProblem, ...]:
    """The problems of one part.

    Raises:
        ConfigError: no such part.
    """
    if part not in PART_SIZES:
        raise ConfigError(f"the embedded PythonMath has the parts {', '.join(PART_SIZES)}; got {part!r}")
    return _parts()[part]


@cache
def _parts() -> dict[str, tuple[MathProblem, ...]]:
    """All parts; a question is asked once in all of them."""
    taken: set[str] = set()
    return {part: tuple(_draw(part, size, taken)) for part, size in PART_SIZES.items()}


def _draw(part: str, size: int, taken: set[str]) -> Iterator[MathProblem]:
    dice = Dice("mini-math", part)
    own, drawn = _OWN_KINDS[part], 0
    while drawn < size:
        kind = dice.choose(own if own and dice.chance(_OWN_SHARE) else EVERYWHERE)
        draft = kind(dice)
        if draft.question in taken or not _sensible(draft):
            continue
        taken.add(draft.question)
        yield MathProblem(
            f"mini/{part}/{drawn}", draft.question, draft.answer, kind=kind.__name__, program=draft.program
        )
        drawn += 1


def _sensible(draft: Draft) -> bool:
    """The answer is neither trivial nor given away."""
    return draft.answer not in ("0", "1", r"\{\}") and draft.answer not in re.findall(r"\d+", draft.question)
