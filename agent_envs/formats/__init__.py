"""Tool formats by name. Adding one is a file here and a line below."""

from __future__ import annotations

from agent_envs.formats.base import ParsedTurn, ToolFormat
from agent_envs.formats.harmony import HarmonyFormat
from agent_envs.formats.hermes import HermesFormat, LenientHermesFormat
from agent_envs.formats.llama3_json import Llama3JsonFormat
from agent_envs.formats.react import ReActFormat
from agent_envs.formats.retool import ReToolFormat
from agent_envs.formats.search_r1 import SearchR1Format
from agent_envs.registry import Registry

FORMATS: Registry[ToolFormat] = Registry("tool format")
FORMATS.register("hermes", HermesFormat())
FORMATS.register("hermes-lenient", LenientHermesFormat())
FORMATS.register("harmony", HarmonyFormat())
FORMATS.register("llama3-json", Llama3JsonFormat())
FORMATS.register("search-r1", SearchR1Format())
FORMATS.register("retool", ReToolFormat())
FORMATS.register("react", ReActFormat())

__all__ = ["FORMATS", "ParsedTurn", "ToolFormat"]
