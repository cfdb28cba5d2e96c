"""How questions about made-up worlds are worded: names for an entity by its link from another, and what is asked of it.

None of these words of meaning is in the passages; see ``mini_world``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from agent_envs.data.mini_world import Kind

Fact: TypeAlias = tuple[Kind, str]
"""A kind of entity and one of its attributes."""

Order: TypeAlias = tuple[Kind, str, bool]
"""A kind, an attribute that is a year, and whether the later one is asked for."""

_LINK_KINDS = {"birthplace": Kind.TOWN, "seat": Kind.TOWN, "publisher": Kind.COMPANY, "studio": Kind.COMPANY}


@dataclass(frozen=True, slots=True)
class Wording:
    """The phrases of one kind of world; ``{}`` stands for an entity.

    Attributes:
        descriptions: a link to another entity, as a name for that one: "the author of {}".
        asks: a fact, as a question.
        orders: which of two comes first or last, as a question.
        same: whether two have the same value, as a question.
        least_years_apart: years of a comparison are no closer than this.
    """

    descriptions: Mapping[Fact, tuple[str, ...]]
    asks: Mapping[Fact, tuple[str, ...]]
    orders: Mapping[Order, tuple[str, ...]]
    same: Mapping[Fact, tuple[str, ...]]
    least_years_apart: int


def target_of(link: str) -> Kind:
    """The kind of entity that a link leads to."""
    return _LINK_KINDS.get(link, Kind.PERSON)


_DESCRIPTIONS: dict[Fact, tuple[str, ...]] = {
    (Kind.FILM, "director"): ("the director of {}", "the one who directed {}", "whoever shot {}"),
    (Kind.FILM, "studio"): ("the studio of {}", "the company that produced {}", "the producer of {}"),
    (Kind.BOOK, "author"): ("the author of {}", "the one who wrote {}", "the writer of {}"),
    (Kind.BOOK, "publisher"): ("the publisher of {}", "the company behind {}", "the company that put out {}"),
    (Kind.COMPANY, "founder"): ("the founder of {}", "the one who started {}", "whoever set up {}"),
    (Kind.COMPANY, "seat"): ("the home of {}", "the town that houses {}", "the town with the headquarters of {}"),
    (Kind.TOWN, "mayor"): ("the head of {}", "whoever governs {}", "the leader of {}"),
    (Kind.PERSON, "birthplace"): ("the birthplace of {}", "the home town of {}", "the town that {} comes from"),
    (Kind.PERSON, "spouse"): ("the spouse of {}", "the one married to {}", "the husband or wife of {}"),
}

_ASKS: dict[Fact, tuple[str, ...]] = {
    (Kind.PERSON, "birthplace"): (
        "What is the birthplace of {}?",
        "Which town does {} come from?",
        "In which town did the life of {} begin?",
    ),
    (Kind.PERSON, "birth year"): (
        "In which year did the life of {} begin?",
        "What is the year of birth of {}?",
        "When did {} come into the world?",
    ),
    (Kind.PERSON, "spouse"): (
        "Who is married to {}?",
        "What is the name of the spouse of {}?",
        "Who is the husband or wife of {}?",
    ),
    (Kind.COMPANY, "seat"): (
        "Which town is home to {}?",
        "Where are the headquarters of {}?",
        "What town does {} call home?",
    ),
    (Kind.COMPANY, "founder"): ("Who started {}?", "Who set up {}?", "Which person gave rise to {}?"),
    (Kind.TOWN, "river"): ("Which river flows past {}?", "What river runs through {}?", "Which water flows by {}?"),
    (Kind.TOWN, "mayor"): ("Who governs {}?", "Who is the head of {}?", "Who leads {}?"),
}

_ORDERS: dict[Order, tuple[str, ...]] = {
    (Kind.PERSON, "birth year", False): (
        "Who is older, {} or {}?",
        "Whose life began earlier, that of {} or that of {}?",
    ),
    (Kind.FILM, "year", False): ("Which film came out earlier, {} or {}?", "Which film is older, {} or {}?"),
    (Kind.BOOK, "year", False): ("Which book came out earlier, {} or {}?", "Which book is older, {} or {}?"),
    (Kind.COMPANY, "year", False): (
        "Which company is older, {} or {}?",
        "Which company started earlier, {} or {}?",
    ),
}

_SAME: dict[Fact, tuple[str, ...]] = {
    (Kind.PERSON, "birthplace"): ("Do {} and {} come from the same town?", "Is the home town of {} and {} the same?"),
    (Kind.FILM, "director"): ("Did the same person direct {} and {}?", "Are {} and {} the work of the same person?"),
    (Kind.BOOK, "publisher"): ("Did the same company put out {} and {}?", "Do {} and {} have the same publisher?"),
    (Kind.COMPANY, "seat"): ("Are {} and {} in the same town?", "Do {} and {} call the same town home?"),
    (Kind.TOWN, "river"): ("Are {} and {} on the same river?", "Does the same river flow past {} and {}?"),
}

SMALL_WORDING = Wording(_DESCRIPTIONS, _ASKS, _ORDERS, _SAME, least_years_apart=15)
"""How the embedded HotpotQA asks."""
