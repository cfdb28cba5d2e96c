"""Tools that a policy can call, by name. Adding one is a file here and a line below."""

from __future__ import annotations

from collections.abc import Callable

from agent_envs.registry import Registry
from agent_envs.tools.base import Tool, ToolOutput, schema_tool, tool
from agent_envs.tools.calculator import calculator_tool
from agent_envs.tools.executor import ToolExecutor
from agent_envs.tools.python import python_tool
from agent_envs.tools.search import search_tool

# An entry makes a tool of whatever it needs, such as a retriever; tasks know what to give.
TOOLS: Registry[Callable[..., Tool]] = Registry("tool")
TOOLS.register("calculator", calculator_tool)
TOOLS.register("python", python_tool)
TOOLS.register("search", search_tool)

__all__ = ["TOOLS", "Tool", "ToolExecutor", "ToolOutput", "calculator_tool", "schema_tool", "search_tool", "tool"]
