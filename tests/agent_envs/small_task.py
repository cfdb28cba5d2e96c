"""A task small enough to read whole, for tests of the core: repeat what a tool says."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from agent_envs.budgets import Budgets
from agent_envs.context_rules import ContextRule
from agent_envs.episode import EpisodeCore
from agent_envs.formats import FORMATS
from agent_envs.formats.base import ParsedTurn
from agent_envs.tasks.base import Decision, OracleTurn, Outcome, SharedTools, answer_ends
from agent_envs.tokenizers import ByteTokenizer, Tokenizer
from agent_envs.tools import Tool, ToolOutput, tool
from agent_envs.types import ToolCall, Turn


def lookup_tool(documents: Sequence[str]) -> Tool:
    """A tool that gives the document of a number."""

    def lookup(number: int) -> ToolOutput:
        """Look up a document.

        Args:
            number: which document.
        """
        return ToolOutput(documents[number % len(documents)], {"number": number})

    return tool(lookup, timeout_s=None)


@dataclass
class SmallTask:
    """Items are gold answers; the reward is 1 for the right one, and 0.125 for each turn that isn't the last."""

    items: tuple[str, ...] = ("alpha", "beta", "gamma")
    tools: tuple[Tool, ...] = field(default_factory=lambda: (lookup_tool(("alpha", "beta", "gamma")),))
    system_prompt: str = ""

    def __len__(self) -> int:
        return len(self.items)

    def item(self, index: int) -> str:
        return self.items[index]

    def task_ids(self) -> Sequence[str]:
        return tuple(f"small-{index}" for index in range(len(self.items)))

    def index_of(self, task_id: str) -> int:
        return list(self.task_ids()).index(task_id)

    def user_prompt(self, item: str) -> str:
        return f"What is document {self.items.index(item)}?"

    def begin(self, item: str) -> SharedTools:
        return SharedTools(self.tools)

    def decide(self, item: str, turns: Sequence[Turn], parsed: ParsedTurn) -> Decision:
        return answer_ends(parsed)

    def answer_request(self) -> str:
        return "Answer now."

    def no_action_hint(self) -> str:
        return "Call or answer."

    def reward(self, outcome: Outcome[str]) -> float:
        if outcome.reason is None:
            return 0.125
        return float(outcome.turns[-1].answer == outcome.item)

    def metrics(self, outcome: Outcome[str]) -> dict[str, float]:
        return {"reward": sum(turn.reward for turn in outcome.turns), "turns": float(len(outcome.turns))}

    def oracle(self, item: str) -> Sequence[OracleTurn]:
        call = ToolCall("lookup", {"number": self.items.index(item)})
        return [OracleTurn(calls=(call,)), OracleTurn(answer=item)]


def small_core(
    tokenizer: Tokenizer | None = None,
    task: SmallTask | None = None,
    ask_final_answer: bool = True,
    context_rule: ContextRule = ContextRule(),  # noqa: B008 - frozen
    **budgets: int,
) -> EpisodeCore[str]:
    """A core of the small task; ``budgets`` are fields of ``Budgets``."""
    return EpisodeCore(
        "AgentR1/Small-v0",
        task or SmallTask(),
        tokenizer or ByteTokenizer(),
        FORMATS.get("hermes"),
        Budgets(**budgets),
        ask_final_answer,
        context_rule,
    )
