"""A made-up world: persons, films, books, companies and towns, their facts, and the passages that tell them.

The wording of the passages (here) and of the questions (``mini_hotpot``) share no words of meaning, so that a search
for the words of a question does not find the passage with its answer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

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


SHARES: dict[Kind, float] = {
    Kind.PERSON: 0.46,
    Kind.FILM: 0.16,
    Kind.BOOK: 0.13,
    Kind.COMPANY: 0.11,
    Kind.TOWN: 0.14,
}
"""The share of each kind among the passages of a world."""

_TRADES = {
    "director": ("film maker",),
    "idler": ("pianist", "painter"),
    "author": ("novelist", "poet"),
    "founder": ("builder", "merchant"),
    "mayor": ("lawyer", "teacher"),
}
_FIRST_YEARS = {Kind.PERSON: 1880, Kind.FILM: 1930, Kind.BOOK: 1930, Kind.COMPANY: 1900}
_YEARS = 60

# One entry per sentence: the attributes that it tells, and the ways to say it.
_SENTENCES: dict[Kind, tuple[tuple[tuple[str, ...], tuple[str, ...]], ...]] = {
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


def build_world(dice: Dice, num_passages: int, exclude: frozenset[str] = frozenset()) -> World:
    """Draws names and facts and writes the passages.

    Args:
        dice: decides everything.
        num_passages: how many entities, split by ``SHARES``; 30 or more, or some kinds would be missing.
        exclude: names that must not appear.
    """
    if num_passages < 30:
        raise ConfigError(f"a world needs 30 passages or more, got num_passages={num_passages}")
    namer = Namer(dice, exclude)
    counts = {kind: max(2, round(share * num_passages)) for kind, share in SHARES.items()}
    counts[Kind.PERSON] += counts[Kind.PERSON] % 2  # persons come in couples
    makers = {Kind.PERSON: namer.person, Kind.TOWN: namer.town, Kind.COMPANY: namer.company}
    names = {kind: [makers.get(kind, namer.title)() for _ in range(counts[kind])] for kind in Kind}
    rivers = [namer.river() for _ in range(max(2, counts[Kind.TOWN] // 2))]
    persons = _draw_persons(dice, names)
    by_role = {
        role: [name for name, facts in persons.items() if facts["trade"] in trades] for role, trades in _TRADES.items()
    }
    everything: dict[Kind, dict[str, dict[str, str]]] = {
        Kind.PERSON: persons,
        Kind.FILM: {
            name: {
                "year": _draw_year(dice, Kind.FILM),
                "director": dice.choose(by_role["director"]),
                "studio": dice.choose(names[Kind.COMPANY]),
            }
            for name in names[Kind.FILM]
        },
        Kind.BOOK: {
            name: {
                "year": _draw_year(dice, Kind.BOOK),
                "author": dice.choose(by_role["author"]),
                "publisher": dice.choose(names[Kind.COMPANY]),
            }
            for name in names[Kind.BOOK]
        },
        Kind.COMPANY: {
            name: {
                "seat": dice.choose(names[Kind.TOWN]),
                "year": _draw_year(dice, Kind.COMPANY),
                "founder": dice.choose(by_role["founder"]),
            }
            for name in names[Kind.COMPANY]
        },
        Kind.TOWN: {
            name: {"river": dice.choose(rivers), "mayor": dice.choose(by_role["mayor"])} for name in names[Kind.TOWN]
        },
    }
    entities = [_write(dice, kind, name, facts) for kind, group in everything.items() for name, facts in group.items()]
    return World({entity.name: entity for entity in dice.shuffled(entities)})


def _draw_persons(dice: Dice, names: Mapping[Kind, Sequence[str]]) -> dict[str, dict[str, str]]:
    """Facts of the persons; the first one and the second are a couple, and so on. Every role has its people."""
    persons = names[Kind.PERSON]
    roles = list(_TRADES)
    facts: dict[str, dict[str, str]] = {}
    for index, name in enumerate(persons):
        facts[name] = {
            "trade": dice.choose(_TRADES[roles[(index // 2 + index) % len(roles)]]),
            "birthplace": dice.choose(names[Kind.TOWN]),
            "birth year": _draw_year(dice, Kind.PERSON),
            "spouse": persons[index ^ 1],
        }
    return facts


def _draw_year(dice: Dice, kind: Kind) -> str:
    return str(_FIRST_YEARS[kind] + dice.below(_YEARS))


def _write(dice: Dice, kind: Kind, name: str, facts: Mapping[str, str]) -> Entity:
    """Puts the facts into sentences."""
    sentences, told_in = [], {}
    for index, (attributes, templates) in enumerate(_SENTENCES[kind]):
        sentences.append(dice.choose(templates).format(name=name, **facts))
        told_in.update(dict.fromkeys(attributes, index))
    return Entity(name, kind, facts, tuple(sentences), told_in)
