"""The embedded GSM8K: made-up word problems of two to five steps, in the official row format.

A story is drawn with its numbers and told; the work is written as it's done, with GSM8K's calculator annotations. No
two problems, in one part or in two, tell the same story with the same numbers, and some stories are told in validation
or in test only. Every amount on the way is positive with at most two decimals, and the answer is no number of the
question. Licence: the project's own.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from agent_envs.data.gsm8k import parse_gsm8k
from agent_envs.data.math_problems import MathProblem
from agent_envs.data.names import Dice, Namer
from agent_envs.data.rows import Row
from agent_envs.data.story import Story, UnfitStoryError, numbers_of
from agent_envs.data.story_kinds import EVERYWHERE, TEST_ONLY, VALIDATION_ONLY, Tale
from agent_envs.errors import ConfigError

PART_SIZES: dict[str, int] = {"train": 1600, "validation": 600, "test": 600}
"""Problems per part."""

_OWN_TALES: dict[str, tuple[Tale, ...]] = {"train": (), "validation": VALIDATION_ONLY, "test": TEST_ONLY}
_OWN_SHARE = 0.15  # of the stories that are a part's own, where it has any


def mini_gsm8k_parts() -> tuple[str, ...]:
    """The names of the parts."""
    return tuple(PART_SIZES)


@cache
def mini_gsm8k(part: str) -> tuple[MathProblem, ...]:
    """The problems of one part.

    Raises:
        ConfigError: no such part.
    """
    rows = mini_gsm8k_rows(part)
    return tuple(parse_gsm8k(Row(f"mini/{part}", row), index, f"mini/{part}") for index, row in enumerate(rows))


def mini_gsm8k_rows(part: str) -> list[dict[str, str]]:
    """One part as rows of the official files.

    Raises:
        ConfigError: no such part.
    """
    if part not in PART_SIZES:
        raise ConfigError(f"the embedded GSM8K has the parts {', '.join(PART_SIZES)}; got {part!r}")
    return list(_parts()[part])


@cache
def _parts() -> dict[str, tuple[dict[str, str], ...]]:
    """All parts; a story and its numbers are taken once for all of them."""
    taken: set[tuple[str, ...]] = set()
    return {part: tuple(_draw(part, size, taken)) for part, size in PART_SIZES.items()}


def _draw(part: str, size: int, taken: set[tuple[str, ...]]) -> Iterator[dict[str, str]]:
    dice = Dice("mini-gsm8k", part)
    own, drawn = _OWN_TALES[part], 0
    while drawn < size:
        tale = dice.choose(own if own and dice.chance(_OWN_SHARE) else EVERYWHERE)
        story = Story(dice, Namer(dice))
        try:
            row = story.finish(tale(story))
        except UnfitStoryError:
            continue
        key = (tale.__name__, *numbers_of(row["question"]))
        if key not in taken:
            taken.add(key)
            drawn += 1
            yield row
