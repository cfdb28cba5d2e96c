"""What stops a training run, beside the errors of ``agent_envs``."""

from __future__ import annotations

from agent_envs.errors import AgentEnvError


class TrainingError(AgentEnvError, RuntimeError):
    """A run that cannot go on; the message says at which step, why, and what to do."""


class NonFiniteError(TrainingError):
    """A loss or logits that are NaN or infinite; the message says where the offending batch is kept."""
