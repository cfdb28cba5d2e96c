"""What generates, by name.

An entry is a function that imports its back end and gives the class, so that naming one back end never loads another's
libraries.
"""

from __future__ import annotations

from collections.abc import Callable

from agent_envs.registry import Registry
from agent_trainer.sampler.base import SampledTurn, Sampler, SamplingParams, TurnRequest

SAMPLERS: Registry[Callable[[], Callable[..., Sampler]]] = Registry("sampler")


def _load_hf() -> Callable[..., Sampler]:
    from agent_trainer.sampler.hf import HFSampler

    return HFSampler


SAMPLERS.register("hf", _load_hf)

__all__ = ["SAMPLERS", "SampledTurn", "Sampler", "SamplingParams", "TurnRequest"]
