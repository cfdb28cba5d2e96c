"""Tool formats by name. Adding one is a file here and a line below."""

from __future__ import annotations

from agent_envs.formats.base import ParsedTurn, ToolFormat
from agent_envs.formats.hermes import HermesFormat
from agent_envs.registry import Registry

FORMATS: Registry[ToolFormat] = Registry("tool format")
FORMATS.register("hermes", HermesFormat())

__all__ = ["FORMATS", "ParsedTurn", "ToolFormat"]
