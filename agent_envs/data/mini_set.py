"""An embedded question-answering set: three worlds that share no name, and further ones without end.

``MiniSet`` holds what the sets have in common: parts, names, streams. What they ask, and in which format, is theirs:
see ``mini_hotpot``, ``mini_two_wiki`` and ``mini_musique``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from agent_envs.data.mini_drafts import Distractors, Draft, Draw, draft_questions
from agent_envs.data.mini_world import SMALL_WORLD, Entity, World, WorldPlan, build_world
from agent_envs.data.names import Dice
from agent_envs.data.records import Question
from agent_envs.data.rows import Row
from agent_envs.errors import ConfigError

PART_SIZES: dict[str, int] = {"train": 1600, "validation": 600, "test": 600}
"""Questions per part."""

NUM_PASSAGES = 700
"""Passages of a world."""

NO_NAMES: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, eq=False)
class MiniSet:
    """An embedded set; the same arguments give the same questions in every process. Licence: the project's own.

    Attributes:
        name: of the set, for messages.
        choose_draw: which kind of question comes next.
        write_row: a row of the set's official format, from its id, draft and paragraphs.
        read_rows: the set's own reader.
        num_paragraphs: of each question.
        plan: what its worlds are made of.
        salt: words that keep its worlds and questions apart from those of other sets.
    """

    name: str
    choose_draw: Callable[[Dice], Draw]
    write_row: Callable[[str, Draft, Sequence[Entity]], dict[str, Any]]
    read_rows: Callable[[Iterable[Row], str], tuple[Question, ...]]
    num_paragraphs: int = 10
    plan: WorldPlan = SMALL_WORLD
    salt: tuple[str, ...] = ()

    @property
    def parts(self) -> tuple[str, ...]:
        """The names of the parts."""
        return tuple(PART_SIZES)

    def split(self, part: str) -> tuple[Question, ...]:
        """The questions of one part, read once per process.

        Raises:
            ConfigError: no such part.
        """
        return _split(self, part)

    def rows(self, part: str) -> list[dict[str, Any]]:
        """One part as rows of the official files, ready for ``json.dump``.

        Raises:
            ConfigError: no such part.
        """
        if part not in PART_SIZES:
            raise ConfigError(f"the embedded {self.name} has the parts {', '.join(PART_SIZES)}; got {part!r}")
        return self._rows(f"mini/{part}", self.world(part), PART_SIZES[part])

    def world(self, part: str) -> World:
        """The world behind a part; none of its names is in the parts before it."""
        return _world(self, part)

    def names(self) -> frozenset[str]:
        """Every name of every part: what a stream of training worlds has to leave out."""
        return NO_NAMES.union(*(self.world(part).names() for part in PART_SIZES))

    def generate(
        self, seed: str, num_questions: int, num_passages: int = NUM_PASSAGES, exclude: frozenset[str] = NO_NAMES
    ) -> tuple[Question, ...]:
        """A freshly named world and questions on it; the same arguments give the same questions everywhere.

        Args:
            seed: any text; the task ids hold it, and a number that counts from 0.
            num_questions: how many; more than the world has to offer is an error.
            num_passages: the size of the world.
            exclude: names not to use, such as ``names()``.

        Raises:
            ConfigError: the world is too small for that many different questions.
        """
        world = self._stream_world(seed, num_passages, exclude)
        return self._read(self._rows(seed, world, num_questions), seed)

    def drafts(
        self, seed: str, num_questions: int, num_passages: int = NUM_PASSAGES, exclude: frozenset[str] = NO_NAMES
    ) -> tuple[World, tuple[Draft, ...]]:
        """The world of ``generate`` with the facts behind its questions, in the same order.

        Raises:
            ConfigError: the world is too small for that many different questions.
        """
        world = self._stream_world(seed, num_passages, exclude)
        return world, draft_questions(self._question_dice(seed), world, num_questions, self.choose_draw)

    def _stream_world(self, seed: str, num_passages: int, exclude: frozenset[str]) -> World:
        return build_world(Dice(*self.salt, "stream", seed, "world"), num_passages, exclude, self.plan)

    def _question_dice(self, seed: str) -> Dice:
        return Dice(*self.salt, seed, "questions")

    def _rows(self, seed: str, world: World, num_questions: int) -> list[dict[str, Any]]:
        dice = self._question_dice(seed)
        drafts = draft_questions(dice, world, num_questions, self.choose_draw)
        distractors = Distractors(dice, world, self.num_paragraphs)
        return [
            self.write_row(f"{seed}/{index}", draft, distractors.around(draft)) for index, draft in enumerate(drafts)
        ]

    def _read(self, rows: Iterable[dict[str, Any]], seed: str) -> tuple[Question, ...]:
        source = f"embedded {self.name}, {seed}"
        return self.read_rows((Row(f"{source}, row {n}", row) for n, row in enumerate(rows, start=1)), source)


@cache
def _split(mini: MiniSet, part: str) -> tuple[Question, ...]:
    return mini._read(mini.rows(part), f"mini/{part}")


@cache
def _world(mini: MiniSet, part: str) -> World:
    earlier = list(PART_SIZES)[: list(PART_SIZES).index(part)]
    exclude = NO_NAMES.union(*(mini.world(name).names() for name in earlier))
    return build_world(Dice(*mini.salt, "mini", part, "world"), NUM_PASSAGES, exclude, mini.plan)
