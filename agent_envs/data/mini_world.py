"""Made-up worlds: persons, films, books, companies and towns, their facts, and the passages that tell them.

A ``WorldPlan`` says which facts there are and how passages tell them. ``SMALL_WORLD`` is that of the embedded HotpotQA;
``mini_kin`` has a wider one. The wording of the passages and of the questions (``mini_wording``) share no words of
meaning, so that a search for the words of a question does not find the passage with its answer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from agent_envs.data.names import Dice, Namer
from agent_envs.data.records import Passage
from agent_envs.errors import ConfigError


class Kind(StrEnum):
    """What a passage is about."""

    PERSON = "person"
    FILM = "film"
    BOOK = "book"
    COMPANY = "company"
    TOWN = "town"


@dataclass(frozen=True, slots=True, eq=False)
class Entity:
    """One thing with a passage of its own; equal only to itself.

    Attributes:
        name: the title of its passage; unique in its world.
        facts: attribute to value; a value is the name of another entity, of a river, a trade, or a year.
        sentences: the passage.
        told_in: attribute to the index of the sentence that tells it.
    """

    name: str
    kind: Kind
    facts: Mapping[str, str]
    sentences: tuple[str, ...]
    told_in: Mapping[str, int]

    @property
    def passage(self) -> Passage:
        """Title and text."""
        return Passage(title=self.name, text=" ".join(self.sentences))


SentencePlan: TypeAlias = tuple[tuple[str, ...], tuple[str, ...]]
"""The attributes that one sentence tells, and the ways to say it."""

FactTable: TypeAlias = dict[str, dict[str, str]]
"""Name to facts, for the entities of one kind."""

SHARES: dict[Kind, float] = {
    Kind.PERSON: 0.46,
    Kind.FILM: 0.16,
    Kind.BOOK: 0.13,
    Kind.COMPANY: 0.11,
    Kind.TOWN: 0.14,
}
"""The share of each kind among the passages of a world."""

TRADES = {
    "director": ("film maker",),
    "idler": ("pianist", "painter"),
    "author": ("novelist", "poet"),
    "founder": ("builder", "merchant"),
    "mayor": ("lawyer", "teacher"),
}
_FIRST_YEARS = {Kind.PERSON: 1880, Kind.FILM: 1930, Kind.BOOK: 1930, Kind.COMPANY: 1900}
_YEARS = 60

SENTENCES: dict[Kind, tuple[SentencePlan, ...]] = {
    Kind.PERSON: (
        (
            ("trade", "birthplace", "birth year"),
            (
                "{name} is a {trade} born in {birthplace} in {birth year}.",
                "{name}, a {trade}, was born in {birth year} in {birthplace}.",
                "Born in {birthplace} in {birth year}, {name} works as a {trade}.",
                "{name} is a {trade} and a native of {birthplace}, born in {birth year}.",
            ),
        ),
        (
            ("spouse",),
            (
                "The partner is {spouse}.",
                "The wedding with {spouse} was a quiet one.",
                "A house is shared with {spouse}.",
            ),
        ),
    ),
    Kind.FILM: (
        (
            ("year", "director"),
            (
                "{name} is a {year} motion picture directed by {director}.",
                "{name}, directed by {director}, opened in {year}.",
                "Directed by {director}, {name} opened in {year}.",
            ),
        ),
        (
            ("studio",),
            (
                "It was made by {studio}.",
                "{studio} paid for it.",
                "The money came from {studio}.",
            ),
        ),
    ),
    Kind.BOOK: (
        (
            ("year", "author"),
            (
                "{name} is a {year} novel written by {author}.",
                "{name}, written by {author}, appeared in {year}.",
                "Written by {author}, {name} appeared in {year}.",
            ),
        ),
        (
            ("publisher",),
            (
                "It was printed by {publisher}.",
                "{publisher} brought it to the shops.",
                "The printer was {publisher}.",
            ),
        ),
    ),
    Kind.COMPANY: (
        (
            ("seat", "year"),
            (
                "{name} has been based in {seat} since {year}.",
                "{name} is a firm in {seat}, opened in {year}.",
                "Since {year}, {name} has kept its offices in {seat}.",
            ),
        ),
        (
            ("founder",),
            (
                "Its founder is {founder}.",
                "{founder} founded it.",
                "It was founded by {founder}.",
            ),
        ),
    ),
    Kind.TOWN: (
        (
            ("river",),
            (
                "{name} lies on the {river}.",
                "{name} stands on the banks of the {river}.",
                "The {river} crosses {name}.",
            ),
        ),
        (
            ("mayor",),
            (
                "Its mayor is {mayor}.",
                "{mayor} was elected mayor.",
                "{mayor} serves as its mayor.",
            ),
        ),
    ),
}


@dataclass(frozen=True, slots=True)
class World:
    """All entities of a world by name, in a fixed order."""

    entities: Mapping[str, Entity]

    def of_kind(self, *kinds: Kind) -> list[Entity]:
        """The entities of these kinds."""
        return [entity for entity in self.entities.values() if entity.kind in kinds]

    def names(self) -> frozenset[str]:
        """Every proper name of the world, rivers included."""
        rivers = (town.facts["river"] for town in self.of_kind(Kind.TOWN))
        return frozenset(self.entities).union(rivers)


@dataclass(frozen=True, slots=True)
class Names:
    """The names of a world to be: those of its entities by kind, and of its rivers, which have no passage."""

    of_kind: Mapping[Kind, Sequence[str]]
    rivers: Sequence[str]


@dataclass(frozen=True, slots=True)
class WorldPlan:
    """What a world is made of.

    Attributes:
        draw_facts: draws the facts of every entity.
        sentences: how a passage of each kind tells them; a sentence whose facts an entity lacks is left out.
    """

    draw_facts: Callable[[Dice, Names], Mapping[Kind, FactTable]]
    sentences: Mapping[Kind, Sequence[SentencePlan]]


def build_world(
    dice: Dice, num_passages: int, exclude: frozenset[str] = frozenset(), plan: WorldPlan | None = None
) -> World:
    """Draws names and facts and writes the passages.

    Args:
        dice: decides everything.
        num_passages: how many entities, split by ``SHARES``; 30 or more, or some kinds would be missing.
        exclude: names that must not appear.
        plan: what the world is made of; ``SMALL_WORLD`` if None.

    Raises:
        ConfigError: the world is too small.
    """
    plan = plan or SMALL_WORLD
    everything = plan.draw_facts(dice, _draw_names(dice, num_passages, exclude))
    entities = [
        _write(dice, kind, name, facts, plan.sentences[kind])
        for kind, group in everything.items()
        for name, facts in group.items()
    ]
    return World({entity.name: entity for entity in dice.shuffled(entities)})


def _draw_names(dice: Dice, num_passages: int, exclude: frozenset[str]) -> Names:
    if num_passages < 30:
        raise ConfigError(f"a world needs 30 passages or more, got num_passages={num_passages}")
    namer = Namer(dice, exclude)
    counts = {kind: max(2, round(share * num_passages)) for kind, share in SHARES.items()}
    counts[Kind.PERSON] += counts[Kind.PERSON] % 2  # persons come in couples
    makers = {Kind.PERSON: namer.person, Kind.TOWN: namer.town, Kind.COMPANY: namer.company}
    names = {kind: [makers.get(kind, namer.title)() for _ in range(counts[kind])] for kind in Kind}
    return Names(names, [namer.river() for _ in range(max(2, counts[Kind.TOWN] // 2))])


def draw_facts(dice: Dice, names: Names) -> dict[Kind, FactTable]:
    """The facts of the small world."""
    persons = _draw_persons(dice, names.of_kind)
    makers = people_by_role(persons, TRADES)
    return {Kind.PERSON: persons, **draw_works(dice, names, makers)}


def people_by_role(persons: FactTable, trades: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    """Who can be a director, an author and so on: those whose trade is one of the role's."""
    return {role: [name for name, facts in persons.items() if facts["trade"] in trades[role]] for role in trades}


def draw_works(dice: Dice, names: Names, makers: Mapping[str, Sequence[str]]) -> dict[Kind, FactTable]:
    """The facts of films, books, companies and towns, whose people are drawn from ``makers`` by role."""

    def table(kind: Kind, draw: Callable[[], dict[str, str]]) -> FactTable:
        return {name: draw() for name in names.of_kind[kind]}

    def work(kind: Kind, maker: str, firm: str) -> FactTable:
        companies = names.of_kind[Kind.COMPANY]
        return table(
            kind,
            lambda: {
                "year": _draw_year(dice, kind),
                maker: dice.choose(makers[maker]),
                firm: dice.choose(companies),
            },
        )

    return {
        Kind.FILM: work(Kind.FILM, "director", "studio"),
        Kind.BOOK: work(Kind.BOOK, "author", "publisher"),
        Kind.COMPANY: table(
            Kind.COMPANY,
            lambda: {
                "seat": dice.choose(names.of_kind[Kind.TOWN]),
                "year": _draw_year(dice, Kind.COMPANY),
                "founder": dice.choose(makers["founder"]),
            },
        ),
        Kind.TOWN: table(
            Kind.TOWN, lambda: {"river": dice.choose(names.rivers), "mayor": dice.choose(makers["mayor"])}
        ),
    }


def _draw_persons(dice: Dice, names: Mapping[Kind, Sequence[str]]) -> FactTable:
    """Facts of the persons; the first one and the second are a couple, and so on. Every role has its people."""
    persons = names[Kind.PERSON]
    roles = list(TRADES)
    facts: FactTable = {}
    for index, name in enumerate(persons):
        facts[name] = {
            "trade": dice.choose(TRADES[roles[(index // 2 + index) % len(roles)]]),
            "birthplace": dice.choose(names[Kind.TOWN]),
            "birth year": _draw_year(dice, Kind.PERSON),
            "spouse": persons[index ^ 1],
        }
    return facts


def _draw_year(dice: Dice, kind: Kind) -> str:
    return str(_FIRST_YEARS[kind] + dice.below(_YEARS))


def _write(dice: Dice, kind: Kind, name: str, facts: Mapping[str, str], plan: Sequence[SentencePlan]) -> Entity:
    """Puts the facts into sentences."""
    sentences: list[str] = []
    told_in: dict[str, int] = {}
    for attributes, templates in plan:
        if all(attribute in facts for attribute in attributes):
            told_in.update(dict.fromkeys(attributes, len(sentences)))
            sentences.append(dice.choose(templates).format(name=name, **facts))
    return Entity(name, kind, facts, tuple(sentences), told_in)


SMALL_WORLD = WorldPlan(draw_facts, SENTENCES)
"""The world of the embedded HotpotQA."""
