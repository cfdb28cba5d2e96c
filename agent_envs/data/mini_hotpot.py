"""The embedded HotpotQA: bridge and comparison questions on made-up worlds, in the official row format.

The three parts are three worlds that share no name. ``generate_world`` makes further ones without end, for a policy
that must not learn any world by heart. Licence: the project's own.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from agent_envs.data.hotpotqa import parse_questions
from agent_envs.data.mini_drafts import Draft, Draw, draw_chain, draw_order, draw_same
from agent_envs.data.mini_set import MiniSet
from agent_envs.data.mini_wording import SMALL_WORDING
from agent_envs.data.mini_world import Entity
from agent_envs.data.names import Dice

_COMPARISON_SHARE = 0.2
_YES_NO_SHARE = 0.4


def _choose_draw(dice: Dice) -> Draw:
    if not dice.chance(_COMPARISON_SHARE):
        return partial(draw_chain, wording=SMALL_WORDING, hops=2, kind="bridge")
    return partial(draw_same if dice.chance(_YES_NO_SHARE) else draw_order, wording=SMALL_WORDING)


def write_row(row_id: str, draft: Draft, paragraphs: Sequence[Entity]) -> dict[str, Any]:
    """A row of the official files. Sentences after the first one bring their own leading space, as those do."""
    return {
        "_id": row_id,
        "question": draft.text,
        "answer": draft.answer,
        "type": draft.kind,
        "level": "medium",
        "supporting_facts": [[step.entity.name, step.entity.told_in[step.attribute]] for step in draft.steps],
        "context": [
            [entity.name, [f" {text}" if index else text for index, text in enumerate(entity.sentences)]]
            for entity in paragraphs
        ],
    }


MINI_HOTPOT = MiniSet("HotpotQA", _choose_draw, write_row, parse_questions)

mini_split = MINI_HOTPOT.split
"""The questions of one part."""

mini_names = MINI_HOTPOT.names
"""Every name of every part."""

generate_world = MINI_HOTPOT.generate
"""A freshly named world and questions on it."""

generate_drafts = MINI_HOTPOT.drafts
"""The world of ``generate_world`` with the facts behind its questions."""
