"""Tasks by name. Adding one is a file here and an entry below; importing agent_envs registers its id."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from agent_envs.registry import Registry
from agent_envs.tasks.base import Task
from agent_envs.tasks.bfcl import MAX_STEPS, BfclOptions, load_bfcl
from agent_envs.tasks.gsm8k import Gsm8kOptions, load_gsm8k
from agent_envs.tasks.hotpotqa import HotpotQaOptions, load_hotpotqa
from agent_envs.tasks.musique import MusiqueOptions, load_musique
from agent_envs.tasks.python_math import PythonMathOptions, load_python_math
from agent_envs.tasks.tool_use import ToolUseOptions, load_tool_use
from agent_envs.tasks.two_wiki import TwoWikiOptions, load_two_wiki


@dataclass(frozen=True, slots=True)
class TaskEntry:
    """A task that environments can be made of.

    Attributes:
        env_id: the id it is registered under.
        summary: a line on it.
        options: a dataclass of its own keyword arguments, all with defaults.
        load: makes the task of them; loaded data is cached and shared.
        defaults: fields of ``EpisodeOptions`` that this task sets otherwise, such as its usual tool format.
    """

    env_id: str
    summary: str
    options: type[Any]
    load: Callable[[Any], Task[Any]]
    defaults: Mapping[str, Any] = field(default_factory=dict)


TASKS: Registry[TaskEntry] = Registry("task")
TASKS.register(
    "hotpotqa",
    TaskEntry(
        "AgentR1/HotpotQA-v0",
        "Two-hop questions over an encyclopaedia, with a search tool (HotpotQA, or an embedded made-up world)",
        HotpotQaOptions,
        load_hotpotqa,
    ),
)
TASKS.register(
    "two_wiki",
    TaskEntry(
        "AgentR1/2WikiMultihopQA-v0",
        "Questions of two to four passages in four types, with a search tool (2WikiMultihopQA, or an embedded world)",
        TwoWikiOptions,
        load_two_wiki,
    ),
)
TASKS.register(
    "musique",
    TaskEntry(
        "AgentR1/MuSiQue-v0",
        "Questions of two to four hops that are all needed, with a search tool (MuSiQue, or an embedded world)",
        MusiqueOptions,
        load_musique,
        {"max_turns": 8, "max_context": 16384},  # four hops, the answer, and room to search again
    ),
)
TASKS.register(
    "bfcl",
    TaskEntry(
        "AgentR1/BFCL-v0",
        "Function calls and multi-turn use of stateful tools, graded by BFCL's checkers (needs bfcl-eval)",
        BfclOptions,
        load_bfcl,
        # Up to 7 turns of the user; with the byte tokenizer the oracle's conversations take up to 23,440 tokens.
        {
            "max_turns": 7 * (MAX_STEPS + 2),
            "max_turn_tokens": 1024,
            "max_observation_tokens": 4096,
            "max_context": 65536,
        },
    ),
)
TASKS.register(
    "tool_use",
    TaskEntry(
        "AgentR1/ToolUse-v0",
        "A task of your own: typed functions, items and a score (or an example: order in a small shop)",
        ToolUseOptions,
        load_tool_use,
    ),
)
TASKS.register(
    "gsm8k",
    TaskEntry(
        "AgentR1/GSM8K-v0",
        "Word problems with a calculator or Python (GSM8K, or embedded made-up ones)",
        Gsm8kOptions,
        load_gsm8k,
        {"max_turns": 10},  # the longest rationale of GSM8K has eight steps
    ),
)
TASKS.register(
    "python_math",
    TaskEntry(
        "AgentR1/PythonMath-v0",
        "Mathematics by writing and running Python, in ReTool's format (MATH and its like, or embedded problems)",
        PythonMathOptions,
        load_python_math,
        {
            "tool_format": "retool",
            "max_turns": 8,
            "max_turn_tokens": 2048,
            "max_observation_tokens": 2048,
            "max_context": 16384,
        },
    ),
)
