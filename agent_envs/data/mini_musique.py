"""The embedded MuSiQue: questions of two to four hops on made-up worlds, in the official row format.

The kinds are MuSiQue's six graphs of hops. A chain asks each hop about the answer of the one before; where two lines of
hops meet, the meeting one asks who heads the shop that a company (one line's answer) has in a town (the other's):

- 2hop, 3hop1, 4hop1: a chain.
- 3hop2: company, town -> head of the shop.
- 4hop2: company, town -> head of the shop -> a fact of that person.
- 4hop3: company; person -> town; -> head of the shop.

Licence: the project's own.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, TypeAlias

from agent_envs.data.mini_drafts import Draft, Draw, Step, checked, describe, draw_chain, follow
from agent_envs.data.mini_kin import KIN_WORDING, KIN_WORLD, SHOPS
from agent_envs.data.mini_set import MiniSet
from agent_envs.data.mini_wording import Fact, target_of
from agent_envs.data.mini_world import Entity, Kind, World
from agent_envs.data.musique import parse_musique
from agent_envs.data.names import Dice

_KIND_SHARES = {"2hop": 0.4, "3hop1": 0.2, "3hop2": 0.12, "4hop1": 0.12, "4hop2": 0.08, "4hop3": 0.08}
_CHAIN_HOPS = {"2hop": 2, "3hop1": 3, "4hop1": 4}
_TOWN_HOPS = {"3hop2": 1, "4hop2": 1, "4hop3": 2}

_HEAD_ASKS = ("Who ran the outlet of {} in {}?", "Which person ran the outlet of {} in {}?")
_HEAD_DESCRIPTIONS = ("the one who ran the outlet of {} in {}", "whoever ran the outlet of {} in {}")


_Line: TypeAlias = tuple[Entity, list[Fact]]
"""An entity that the question names, and the links that are followed from it."""


def _choose_draw(dice: Dice) -> Draw:
    kind = dice.choose_weighted(_KIND_SHARES)
    if kind in _CHAIN_HOPS:
        return partial(draw_chain, wording=KIN_WORDING, hops=_CHAIN_HOPS[kind], kind=kind)
    return partial(_draw_meeting, kind=kind)


def _draw_meeting(dice: Dice, world: World, kind: str) -> Draft | None:
    """Lines of hops that lead to a town and to a company, and who heads that company's shop in that town."""
    company = dice.choose(world.of_kind(Kind.COMPANY))
    shop = dice.choose(SHOPS)
    to_town = _lead_to(dice, world, world.entities[company.facts[f"shop {shop}"]], _TOWN_HOPS[kind])
    to_company = _lead_to(dice, world, company, 1)
    if to_town is None or to_company is None:
        return None
    before = _line(world, to_town, 0)
    steps = [*before, *_line(world, to_company, len(before))]
    steps.append(Step(company, f"head {shop}", f"#{len(steps)} >> head of the shop in #{len(before)}"))
    phrases = [describe(dice, KIN_WORDING, *line) for line in (to_company, to_town)]
    if kind == "4hop2":
        return _ask_on(dice, world, dice.choose(_HEAD_DESCRIPTIONS).format(*phrases), steps)
    return checked(Draft(dice.choose(_HEAD_ASKS).format(*phrases), steps[-1].value, kind, tuple(steps)))


def _lead_to(dice: Dice, world: World, goal: Entity, hops: int) -> _Line | None:
    """A way to an entity, found backwards. None where nothing leads there by the links chosen."""
    path: list[Fact] = []
    for _ in range(hops):
        link = dice.choose([link for link in KIN_WORDING.descriptions if target_of(link[1]) is goal.kind])
        sources = [entity for entity in world.of_kind(link[0]) if entity.facts.get(link[1]) == goal.name]
        if not sources:
            return None
        goal = dice.choose(sources)
        path.insert(0, link)
    return goal, path


def _line(world: World, line: _Line, earlier: int) -> tuple[Step, ...]:
    first, path = line
    return follow(world, first, [attribute for _, attribute in path], first.name, earlier) or ()


def _ask_on(dice: Dice, world: World, phrase: str, steps: Sequence[Step]) -> Draft | None:
    """One more hop: a fact of the head of the shop."""
    head = world.entities[steps[-1].value]
    fact = dice.choose([fact for fact in KIN_WORDING.asks if fact[0] is Kind.PERSON])
    last = follow(world, head, [fact[1]], f"#{len(steps)}")
    if last is None:
        return None
    text = dice.choose(KIN_WORDING.asks[fact]).format(phrase)
    return checked(Draft(text, last[0].value, "4hop2", (*steps, *last)))


def _write_row(row_id: str, draft: Draft, paragraphs: Sequence[Entity]) -> dict[str, Any]:
    index = {entity.name: number for number, entity in enumerate(paragraphs)}
    gold = {entity.name for entity in draft.gold}
    return {
        "id": f"{draft.kind}__{row_id}",
        "paragraphs": [
            {
                "idx": number,
                "title": entity.name,
                "paragraph_text": entity.passage.text,
                "is_supporting": entity.name in gold,
            }
            for number, entity in enumerate(paragraphs)
        ],
        "question": draft.text,
        "question_decomposition": [
            {
                "id": number,
                "question": step.asked,
                "answer": step.value,
                "paragraph_support_idx": index[step.entity.name],
            }
            for number, step in enumerate(draft.steps, start=1)
        ],
        "answer": draft.answer,
        "answer_aliases": [],
        "answerable": True,
    }


MINI_MUSIQUE = MiniSet(
    "MuSiQue", _choose_draw, _write_row, parse_musique, num_paragraphs=20, plan=KIN_WORLD, salt=("musique",)
)
"""Parts ``train``, ``validation`` and ``test``, and worlds without end by ``MINI_MUSIQUE.generate``."""
