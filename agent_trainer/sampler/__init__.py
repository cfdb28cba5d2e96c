"""What generates, by name.

An entry makes a sampler of a policy (a model, or where one is served), for the episodes of one kind of environment. It
imports its back end when it is called, so that naming one back end never loads another's libraries.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from agent_envs.episode import EpisodeCore
from agent_envs.registry import Registry
from agent_trainer.sampler.base import SampledTurn, Sampler, SamplingParams, TurnRequest

SAMPLERS: Registry[Callable[[Any, SamplingParams, EpisodeCore[Any]], Sampler]] = Registry("sampler")


def _hf(model: Any, params: SamplingParams, core: EpisodeCore[Any]) -> Sampler:
    """A transformers model in this process."""
    from agent_trainer.sampler.hf import HFSampler

    return HFSampler.for_environment(model, params, core)


SAMPLERS.register("hf", _hf)

__all__ = ["SAMPLERS", "SampledTurn", "Sampler", "SamplingParams", "TurnRequest"]
