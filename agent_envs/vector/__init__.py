"""Many environments at once."""

from __future__ import annotations

from agent_envs.vector.env import AgentVectorEnv, Ready

__all__ = ["AgentVectorEnv", "Ready"]
