"""Environments through pickle: the options they were made with, and the episode's state as plain data.

Tools, data sets and tokenizers are not pickled: the environment is made again from its options, in whatever process it
arrives, and takes the state over. Tools that keep state for the episode are brought back to it by running its calls
again, in order; what the policy has read stays as recorded.
"""

from __future__ import annotations

from typing import Any

from agent_envs.episode import EpisodeCore
from agent_envs.tasks.base import SharedTools

# What a core holds that is made anew: shared, or bound to this process.
_MADE_ANEW = frozenset(
    {
        "env_id", "task", "tokenizer", "format", "budgets", "ask_final_answer", "context_rule",
        "renderer", "turn_ends", "_kit", "_replies", "_system_prompt", "_item", "_buffer",
    }
)  # fmt: skip


def state_of(core: EpisodeCore[Any]) -> dict[str, Any]:
    """The episode's state, which survives pickle."""
    return {name: value for name, value in core.__dict__.items() if name not in _MADE_ANEW}


def take_state(core: EpisodeCore[Any], state: dict[str, Any]) -> None:
    """Brings a freshly made core of the same options to a state."""
    core.__dict__.update(state)
    core._buffer = core._trajectory.buffer
    if core._index < 0:  # no episode has begun
        return
    core._item = core.task.item(core._index)
    core._use(core.task.begin(core._item))
    core._open_turn(state["_opening"])
    if core.done:
        core.close()
    elif not isinstance(core._kit.toolbox, SharedTools):
        for turn in core._turns:
            if turn.results:
                core._kit.executor.run(turn.calls)
