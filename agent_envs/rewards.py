"""Rewards of question answering, by name: what the last turn of an episode earns.

Only the policy's own words count: the answer as written and the calls as written, never a tool's text.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from agent_envs import scoring
from agent_envs.data.records import Question
from agent_envs.registry import Registry
from agent_envs.tasks.base import Outcome

QaReward: TypeAlias = Callable[[Outcome[Question]], float]

QA_REWARDS: Registry[QaReward] = Registry("reward")


def format_ok(outcome: Outcome[Question]) -> tuple[bool, bool]:
    """Whether the answer and the tool calls are well formed.

    The answer: the last turn holds exactly one non-empty ``<answer>``. The calls: none of the episode was malformed,
    unknown or ill-typed; an episode without calls passes.
    """
    tools = not any(event.kind.is_malformed for event in outcome.events)
    return outcome.turns[-1].answer_well_formed, tools


def paper(outcome: Outcome[Question]) -> float:
    """Strict EM if the format is right, else a penalty: -1 to 0 in halves. Source: arXiv 2511.14460, its reward."""
    answer_ok, tools_ok = format_ok(outcome)
    em = scoring.exact_match(outcome.turns[-1].answer, outcome.item.answers)
    return scoring.paper_reward(em, answer_ok, tools_ok)


def exact_match(outcome: Outcome[Question]) -> float:
    """1 for a right answer, else 0."""
    return scoring.exact_match(outcome.turns[-1].answer, outcome.item.answers)


def f1(outcome: Outcome[Question]) -> float:
    """The word overlap of answer and gold, in [0, 1]."""
    return scoring.f1(outcome.turns[-1].answer, outcome.item.answers)


QA_REWARDS.register("paper", paper)
QA_REWARDS.register("em", exact_match)
QA_REWARDS.register("f1", f1)
