"""A TRL-derived multi-turn trainer on the environments of ``agent_envs``.

``AgentTrainer`` and ``AgentConfig`` are loaded when they are first used: importing the package loads no torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from agent_trainer.config import AgentConfig
    from agent_trainer.trainer import AgentTrainer

__all__ = ["AgentConfig", "AgentTrainer"]


def __getattr__(name: str) -> Any:
    if name == "AgentConfig":
        from agent_trainer.config import AgentConfig

        return AgentConfig
    if name == "AgentTrainer":
        from agent_trainer.trainer import AgentTrainer

        return AgentTrainer
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
