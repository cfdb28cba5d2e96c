"""The embedded 2WikiMultihopQA: its four types of question on made-up worlds, in the official row format.

- compositional: a fact of the one whom a fact of another names ("Who is the mother of the director of ...?").
- inference: a relation that follows from two others ("Who is the paternal grandfather of ...?").
- comparison: which of two comes first, or whether they share a fact.
- bridge_comparison: the same of two whom facts of others name ("Which film has the director who is older ...?").

Licence: the project's own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from agent_envs.data.mini_drafts import (
    Draft,
    Draw,
    Subject,
    checked,
    draw_chain,
    draw_order,
    draw_same,
    follow,
    order_of,
    same_of,
)
from agent_envs.data.mini_hotpot import write_row as write_hotpot_row
from agent_envs.data.mini_kin import KIN_WORDING, KIN_WORLD
from agent_envs.data.mini_set import MiniSet
from agent_envs.data.mini_world import Entity, Kind, World
from agent_envs.data.names import Dice
from agent_envs.data.two_wiki import parse_two_wiki

_TYPE_SHARES = {"compositional": 0.42, "inference": 0.12, "comparison": 0.24, "bridge_comparison": 0.22}
_YES_NO_SHARE = 0.4

_RELATIVES: dict[tuple[str, ...], str] = {
    ("father", "father"): "paternal grandfather",
    ("father", "mother"): "paternal grandmother",
    ("mother", "father"): "maternal grandfather",
    ("mother", "mother"): "maternal grandmother",
    ("spouse", "father"): "father-in-law",
    ("spouse", "mother"): "mother-in-law",
}
_INFERENCES = ("Who is the {} of {}?", "What is the name of the {} of {}?")

_MAKERS = {Kind.FILM: ("film", "director"), Kind.BOOK: ("book", "author"), Kind.COMPANY: ("company", "founder")}
_MAKER_ORDERS = {
    ("birth year", False): "Which {kind} has the {maker} whose life began earlier, {{}} or {{}}?",
    ("birth year", True): "Which {kind} has the {maker} whose life began later, {{}} or {{}}?",
    ("death year", False): "Which {kind} has the {maker} who passed away first, {{}} or {{}}?",
    ("death year", True): "Which {kind} has the {maker} who passed away later, {{}} or {{}}?",
}
_MAKERS_SAME = "Do the {maker} of {{}} and the {maker} of {{}} come from the same town?"


def _choose_draw(dice: Dice) -> Draw:
    return _DRAWS[dice.choose_weighted(_TYPE_SHARES)](dice)


def _choose_comparison(dice: Dice) -> Draw:
    return partial(draw_same if dice.chance(_YES_NO_SHARE) else draw_order, wording=KIN_WORDING)


def _choose_bridge_comparison(dice: Dice) -> Draw:
    if dice.chance(_YES_NO_SHARE):
        return partial(_draw_makers_same, same=dice.chance(0.5))
    return _draw_makers_order


def _draw_compositional(dice: Dice, world: World) -> Draft | None:
    draft = draw_chain(dice, world, KIN_WORDING, 2, "compositional")
    return None if draft is None or draft.attributes in _RELATIVES else draft


def _draw_inference(dice: Dice, world: World) -> Draft | None:
    relation = dice.choose(list(_RELATIVES))
    first = dice.choose(world.of_kind(Kind.PERSON))
    text = dice.choose(_INFERENCES).format(_RELATIVES[relation], first.name)
    steps = follow(world, first, relation, first.name)
    return None if steps is None else checked(Draft(text, steps[-1].value, "inference", steps))


def _draw_makers_order(dice: Dice, world: World) -> Draft | None:
    kind = dice.choose(list(_MAKERS))
    attribute, latest = dice.choose(list(_MAKER_ORDERS))
    form = _filled(_MAKER_ORDERS[attribute, latest], kind)
    return order_of(dice, _by_maker(world, kind), (kind, attribute, latest), [form], KIN_WORDING)


def _draw_makers_same(dice: Dice, world: World, same: bool) -> Draft | None:
    """The answer is settled beforehand: where it is rarer, more is tried until it comes up."""
    kind = dice.choose(list(_MAKERS))
    return same_of(dice, _by_maker(world, kind), "birthplace", [_filled(_MAKERS_SAME, kind)], same)


def _filled(form: str, kind: Kind) -> str:
    word, maker = _MAKERS[kind]
    return form.format(kind=word, maker=maker)


def _by_maker(world: World, kind: Kind) -> list[Subject]:
    _, maker = _MAKERS[kind]
    return [Subject(work, world.entities[work.facts[maker]], maker) for work in world.of_kind(kind)]


_DRAWS: dict[str, Callable[[Dice], Draw]] = {
    "compositional": lambda dice: _draw_compositional,
    "inference": lambda dice: _draw_inference,
    "comparison": _choose_comparison,
    "bridge_comparison": _choose_bridge_comparison,
}


def _write_row(row_id: str, draft: Draft, paragraphs: Sequence[Entity]) -> dict[str, Any]:
    """HotpotQA's fields without its level, and the triples behind the answer; nothing here has an id at Wikidata."""
    row = write_hotpot_row(row_id, draft, paragraphs)
    del row["level"]
    triples = [[step.entity.name, step.attribute, step.value] for step in draft.steps]
    return {**row, "evidences": triples, "answer_id": None}


MINI_TWO_WIKI = MiniSet("2WikiMultihopQA", _choose_draw, _write_row, parse_two_wiki, plan=KIN_WORLD, salt=("two-wiki",))
"""Parts ``train``, ``validation`` and ``test``, and worlds without end by ``MINI_TWO_WIKI.generate``."""
