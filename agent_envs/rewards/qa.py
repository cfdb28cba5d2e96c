"""Rewards of question answering.

Only the policy's own words and the tools' data count: an ``<answer>`` in a tool's text is no answer.
"""

from __future__ import annotations

from agent_envs import scoring
from agent_envs.data.records import Question
from agent_envs.numbers import numeric_match
from agent_envs.rewards.compose import RewardCatalogue
from agent_envs.rewards.judge import judge_part
from agent_envs.rewards.parts import COMMON_PARTS, Part, end_part
from agent_envs.tasks.base import Outcome


def em(outcome: Outcome[Question]) -> float:
    """1 where the answer equals an accepted one after normalisation, else 0."""
    return scoring.exact_match(outcome.turns[-1].answer, outcome.item.answers)


def f1(outcome: Outcome[Question]) -> float:
    """The word overlap of the answer and the best accepted one, 0 to 1."""
    return scoring.f1(outcome.turns[-1].answer, outcome.item.answers)


def numeric(outcome: Outcome[Question]) -> float:
    """1 where the one number in the answer equals that of an accepted answer, however it is written, else 0."""
    answer = outcome.turns[-1].answer
    return max(numeric_match(answer, accepted) for accepted in outcome.item.answers)


def support_recall(outcome: Outcome[Question]) -> float:
    """The share of the gold paragraphs that searches of the episode found, 0 to 1; 1 where there is no gold."""
    results = [result for turn in outcome.turns for result in turn.results]
    found = [name for result in results for kind in ("titles", "keys") for name in result.data.get(kind, ())]
    return scoring.support_recall(found, outcome.item.gold_keys)


SUPPORT_GAIN: Part[Question] = Part(
    "support_gain",
    "What a turn adds to the share of the gold paragraphs found; sums to support_recall (0 where there is no gold).",
    "turn",
    lambda: support_recall,
)

QA_REWARDS: RewardCatalogue[Question] = RewardCatalogue(
    (
        *COMMON_PARTS,
        end_part(em),
        end_part(f1),
        end_part(numeric),
        end_part(support_recall),
        SUPPORT_GAIN,
        judge_part(lambda item: (item.question, item.answers)),
    ),
    # EM if the format is right, else format - 1: -1, -0.5, 0 or 1. Source: Agent-R1 (arXiv 2511.14460).
    named={"paper": "em*answer_format*tool_format + format - 1"},
)
