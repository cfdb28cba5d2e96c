"""Tools that a policy can call."""

from __future__ import annotations

from agent_envs.tools.base import Tool, ToolOutput, tool
from agent_envs.tools.executor import ToolExecutor
from agent_envs.tools.search import search_tool

__all__ = ["Tool", "ToolExecutor", "ToolOutput", "search_tool", "tool"]
