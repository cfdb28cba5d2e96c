"""Rewards composed of small named parts: ``"em*format + 0.2*support_gain - 0.01*tool_calls"``."""

from agent_envs.rewards.compose import Reward, RewardCatalogue
from agent_envs.rewards.judge import judge_part
from agent_envs.rewards.parts import COMMON_PARTS, Part, common_metrics, end_part, end_parts, turn_part, turn_parts
from agent_envs.rewards.qa import QA_REWARDS

__all__ = [
    "COMMON_PARTS",
    "QA_REWARDS",
    "Part",
    "Reward",
    "RewardCatalogue",
    "common_metrics",
    "end_part",
    "end_parts",
    "judge_part",
    "turn_part",
    "turn_parts",
]
