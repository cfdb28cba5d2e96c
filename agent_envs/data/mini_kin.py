"""A wider world than the embedded HotpotQA's: four generations of families, deaths, and companies with shops.

Couples belong to generations 18 to 39 years apart; whoever is not of the first one has a couple of the generation
before as parents. A couple's marriage is told by one of the two, so that finding one passage is not finding both. Those
who make films and the like are of the last two generations, and all works date from a time when both were alive.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from agent_envs.data.mini_wording import SMALL_WORDING, Fact, Order, Wording
from agent_envs.data.mini_world import (
    SENTENCES,
    TRADES,
    FactTable,
    Kind,
    Names,
    WorldPlan,
    draw_works,
    people_by_role,
)
from agent_envs.data.names import Dice

SHOPS = (1, 2, 3)
"""Every company has a shop in three towns, each with a head of its own: facts ``shop 1``, ``head 1`` and so on."""

_TRADES = {**TRADES, "director": ("cinematographer",)}  # questions name films as such
_GENERATIONS = 4
_FIRST_MAKERS = 2
_BIRTHS = ((1815, 10), (1842, 10), (1870, 10), (1897, 12))
_WORKS = (1931, 15)
_LAST_OF_WORKS = _WORKS[0] + _WORKS[1]


def _draw_facts(dice: Dice, names: Names) -> dict[Kind, FactTable]:
    persons = _draw_persons(dice, names.of_kind)
    alive = {name: facts for name, facts in persons.items() if _is_maker(facts)}
    makers = people_by_role(alive, _TRADES)
    facts = {Kind.PERSON: persons, **draw_works(dice, names, makers)}
    for kind in (Kind.FILM, Kind.BOOK, Kind.COMPANY):
        for work in facts[kind].values():
            work["year"] = _year(dice, *_WORKS)
    for company in facts[Kind.COMPANY].values():
        company.update(_draw_shops(dice, names.of_kind[Kind.TOWN], list(alive), company["seat"]))
    return facts


def _is_maker(facts: Mapping[str, str]) -> bool:
    return int(facts["birth year"]) >= _BIRTHS[_FIRST_MAKERS][0]


def _draw_persons(dice: Dice, names: Mapping[Kind, Sequence[str]]) -> FactTable:
    """Couple number c is of generation c modulo 4, so that every world has all of them, and every role its people."""
    persons, roles = names[Kind.PERSON], list(_TRADES)
    couples = [(persons[index], persons[index + 1]) for index in range(0, len(persons), 2)]
    facts: FactTable = {}
    for number, couple in enumerate(couples):
        generation = number % _GENERATIONS
        parents = dice.shuffled(couples[generation - 1 :: _GENERATIONS])[:2] if generation else []
        teller = dice.below(2)
        for place, name in enumerate(couple):
            facts[name] = {
                "trade": dice.choose(_TRADES[roles[(number + 2 * number + place) % len(roles)]]),
                "birthplace": dice.choose(names[Kind.TOWN]),
                **_draw_life(dice, generation),
            }
            if place == teller:
                facts[name]["spouse"] = couple[1 - place]
            if parents:
                facts[name]["father"], facts[name]["mother"] = parents[place]
    return facts


def _draw_life(dice: Dice, generation: int) -> dict[str, str]:
    """Makers outlive the years of the works; nobody grows older than 106."""
    birth = int(_year(dice, *_BIRTHS[generation]))
    if generation < _FIRST_MAKERS:
        return {"birth year": str(birth), "death year": _year(dice, birth + 50, 40)}
    return {"birth year": str(birth), "death year": _year(dice, _LAST_OF_WORKS, 30)}


def _year(dice: Dice, first: int, count: int) -> str:
    return str(first + dice.below(count))


def _draw_shops(dice: Dice, towns: Sequence[str], heads: Sequence[str], seat: str) -> dict[str, str]:
    """Shops in different towns, none at the seat, under different heads. The smallest world has just enough of both."""
    places = dice.shuffled(town for town in towns if town != seat)[: len(SHOPS)]
    people = dice.shuffled(heads)[: len(SHOPS)]
    shops: dict[str, str] = {}
    for number, town, head in zip(SHOPS, places, people, strict=True):
        shops |= {f"shop {number}": town, f"head {number}": head}
    return shops


_SHOP_FACTS = tuple(f"{fact} {number}" for number in SHOPS for fact in ("shop", "head"))

KIN_WORLD = WorldPlan(
    _draw_facts,
    {
        **SENTENCES,
        Kind.PERSON: (
            *SENTENCES[Kind.PERSON],
            (
                ("father", "mother"),
                (
                    "{father} and his wife {mother} had {name} as a child.",
                    "{mother} bore the child {name} to her husband {father}.",
                    "{name} was a child of {father} and his wife {mother}.",
                ),
            ),
            (
                ("death year",),
                (
                    "{name} died in {death year}.",
                    "{name} was buried in {death year}.",
                    "The funeral of {name} was held in {death year}.",
                ),
            ),
        ),
        Kind.COMPANY: (
            *SENTENCES[Kind.COMPANY],
            (
                _SHOP_FACTS,
                (
                    "It has shops in {shop 1} under {head 1}, {shop 2} under {head 2} and {shop 3} under {head 3}.",
                    "{head 1} minds its shop in {shop 1}, {head 2} the one in {shop 2} and {head 3} that in {shop 3}.",
                ),
            ),
        ),
    },
)
"""The world of the embedded 2WikiMultihopQA and MuSiQue."""

_SPOUSES = ("the spouse of {}", "the one married to {}")

_DESCRIPTIONS: dict[Fact, tuple[str, ...]] = {
    **SMALL_WORDING.descriptions,
    (Kind.PERSON, "spouse"): _SPOUSES,
    (Kind.PERSON, "father"): ("the father of {}",),
    (Kind.PERSON, "mother"): ("the mother of {}",),
}
_ASKS: dict[Fact, tuple[str, ...]] = {
    **SMALL_WORDING.asks,
    (Kind.PERSON, "spouse"): ("Who is married to {}?", "What is the name of the spouse of {}?"),
    (Kind.PERSON, "father"): ("Who is the father of {}?",),
    (Kind.PERSON, "mother"): ("Who is the mother of {}?",),
    (Kind.PERSON, "death year"): (
        "In which year did the life of {} end?",
        "What is the year of death of {}?",
        "When did {} pass away?",
    ),
}
_ORDERS: dict[Order, tuple[str, ...]] = {
    **SMALL_WORDING.orders,
    (Kind.PERSON, "birth year", True): ("Who is younger, {} or {}?",),
    (Kind.PERSON, "death year", False): ("Who passed away first, {} or {}?",),
    (Kind.PERSON, "death year", True): ("Who passed away later, {} or {}?",),
    (Kind.FILM, "year", True): ("Which film came out later, {} or {}?",),
    (Kind.BOOK, "year", True): ("Which book came out later, {} or {}?",),
    (Kind.COMPANY, "year", True): ("Which company started later, {} or {}?",),
}

KIN_WORDING = Wording(_DESCRIPTIONS, _ASKS, _ORDERS, SMALL_WORDING.same, least_years_apart=3)
"""How the embedded 2WikiMultihopQA and MuSiQue ask."""
