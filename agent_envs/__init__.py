"""LLM-agent tasks as Gymnasium environments: one step is one token, or one turn.

Importing the package registers the ids: ``gym.make("AgentR1/HotpotQA-v0")``.
"""

from __future__ import annotations

from agent_envs.checker import ConformanceError, check_agent_env
from agent_envs.envs import AgentEnv, TokenEnv, TurnEnv
from agent_envs.episode import EpisodeCore
from agent_envs.errors import AgentEnvError
from agent_envs.registration import make_env, register_all
from agent_envs.tasks.tool_use import ToolUseTask
from agent_envs.types import Episode, Event, EventKind, FeedResult, StopReason, ToolCall, ToolResult, Turn

__version__ = "0.1.0"

register_all()

__all__ = [
    "AgentEnv",
    "AgentEnvError",
    "ConformanceError",
    "Episode",
    "EpisodeCore",
    "Event",
    "EventKind",
    "FeedResult",
    "StopReason",
    "TokenEnv",
    "ToolCall",
    "ToolResult",
    "ToolUseTask",
    "Turn",
    "TurnEnv",
    "check_agent_env",
    "make_env",
    "register_all",
]
