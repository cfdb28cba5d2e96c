"""The narrow interface to whatever generates: token ids in, token ids and log-probabilities out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from agent_envs.types import Float32Array, Int32Array


@dataclass(frozen=True, slots=True)
class SamplingParams:
    """How to sample.

    Attributes:
        temperature: > 0 divides the logits; 0 takes the most likely token.
        top_k: keep the k most likely tokens; 0 keeps all.
        top_p: keep the smallest set of tokens with at least this probability, in (0, 1]; 1 keeps all.
    """

    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0


@dataclass(frozen=True, slots=True)
class TurnRequest:
    """Asks for one turn of one episode.

    Attributes:
        key: names the episode; requests of one key share a KV cache until ``release``.
        context: int32 ``[T]``, every token so far; it extends the context of the key's request before, sampled
            tokens included, and the sampler prefills only what is new.
        max_new_tokens: the most tokens to sample, >= 1.
        stop: called with each sampled id in order; True makes that token the turn's last one.
        seed: of this turn's own random stream, so that it does not depend on the batch around it.
    """

    key: int
    context: Int32Array
    max_new_tokens: int
    stop: Callable[[int], bool]
    seed: int


@dataclass(frozen=True, slots=True)
class SampledTurn:
    """A finished turn: int32 ``[n]`` ids and float32 ``[n]`` log-probabilities of the distribution sampled from."""

    key: int
    ids: Int32Array
    logprobs: Float32Array


@runtime_checkable
class Sampler(Protocol):
    """Generates turns of many episodes at once."""

    def submit(self, request: TurnRequest) -> None:
        """Queues a turn."""
        ...

    def poll(self) -> list[SampledTurn]:
        """Advances generation by one model call and gives the turns that finished; empty where nothing is queued."""
        ...

    def release(self, key: int) -> None:
        """Frees what is held for an episode; unknown keys are ignored."""
        ...
