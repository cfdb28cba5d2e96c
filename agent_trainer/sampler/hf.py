"""The sampler over a Hugging Face model: many episodes at once, each with a cache that lives from turn to turn.

One ``poll`` is one model call. Contexts that wait are prefilled, several of similar length together, and every sequence
that is generating advances by one token; the two kinds of call take turns, so that neither starves the other and an
episode whose environment replied joins at the next prefill, whatever the others do. Only tokens that the cache lacks
are fed: the environment's reply and the last token sampled, which ended the turn before anything had to follow it.

A turn's tokens come from its own random stream, so they do not depend on the batch around it, up to the rounding of the
model's arithmetic (different batch shapes round differently, which can flip a near tie).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from agent_envs.episode import EpisodeCore
from agent_envs.errors import ConfigError
from agent_envs.types import Int32Array
from agent_trainer.sampler.base import SampledTurn, SamplingParams, TurnRequest
from agent_trainer.sampler.cacheable import model_facts, unwrapped
from agent_trainer.sampler.kv_slots import KVSlots, SlotRow
from agent_trainer.sampler.sampling import check_sampling_params, draw_tokens


@dataclass(frozen=True, slots=True)
class SamplerCounts:
    """What a sampler has done so far.

    Attributes:
        prefill_calls: model calls that prefilled contexts.
        decode_calls: model calls that advanced generating sequences by one token.
        prefilled_tokens: context tokens fed, padding not counted.
        padded_tokens: padding fed beside them.
        sampled_tokens: tokens drawn.
    """

    prefill_calls: int = 0
    decode_calls: int = 0
    prefilled_tokens: int = 0
    padded_tokens: int = 0
    sampled_tokens: int = 0


@dataclass(slots=True, eq=False)
class _Sequence:
    """The state of one episode: what is cached, and the turn at hand.

    ``context`` and ``ids`` together are every token known; the first ``cached`` of them have keys and values.
    """

    key: int
    slot: int
    context: Int32Array
    cached: int = 0
    request: TurnRequest | None = None
    random: np.random.Generator = field(default_factory=lambda: np.random.Generator(np.random.PCG64(0)))
    ids: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)

    @property
    def missing(self) -> int:
        """Tokens known but not cached."""
        return len(self.context) + len(self.ids) - self.cached


class HFSampler:
    """Samples turns from a transformers causal language model, in this process.

    The model may be bare or inside PEFT's or accelerate's wrappers. It is put into evaluation mode for each call and
    back afterwards, module by module, and no gradient is recorded; gradient checkpointing may be on. Weights must not
    change while an episode is held, since its keys and values were made by the old ones: release every key first.
    """

    def __init__(
        self,
        model: nn.Module,
        params: SamplingParams,
        pad_token_id: int = 0,
        *,
        vocab_size: int | None = None,
        max_batch: int = 256,
        max_prefill_tokens: int = 8192,
    ) -> None:
        """Checks the model and the options; allocates nothing yet.

        Args:
            model: full attention only, "sdpa" or "eager".
            params: temperature 0 is greedy; its log-probabilities are then those of the untempered distribution.
            pad_token_id: fills the gaps of a batch; any valid id, it is never looked at.
            vocab_size: ids from here on are never sampled; for models whose embedding is larger than their tokenizer.
                None samples from all.
            max_batch: the most rows of one model call, >= 1.
            max_prefill_tokens: the most tokens, padding included, of one prefill of several contexts; a single longer
                context is prefilled by itself.

        Raises:
            ValueError: an option out of range, or a model that the cache would compute wrongly.
        """
        check_sampling_params(params)
        self.model = unwrapped(model)
        self._facts = model_facts(self.model)
        if max_batch < 1 or max_prefill_tokens < 1:
            raise ValueError(f"max_batch and max_prefill_tokens must be >= 1, got {max_batch} and {max_prefill_tokens}")
        if not 0 <= pad_token_id < self._facts.vocab_size:
            raise ValueError(f"pad_token_id {pad_token_id} is outside the model's {self._facts.vocab_size} embeddings")
        if vocab_size is not None and not 1 <= vocab_size <= self._facts.vocab_size:
            raise ValueError(f"vocab_size {vocab_size} must be in 1..{self._facts.vocab_size}, the model's embeddings")
        self.params = params
        self.counts = SamplerCounts()
        self._pad = pad_token_id
        self._vocab_size = vocab_size
        self._max_batch = max_batch
        self._max_prefill_tokens = max_prefill_tokens
        self._cache = KVSlots()
        self._sequences: dict[int, _Sequence] = {}
        self._waiting: deque[_Sequence] = deque()
        self._generating: deque[_Sequence] = deque()
        self._prefill_next = True

    @classmethod
    def for_environment(cls, model: nn.Module, params: SamplingParams, core: EpisodeCore[Any]) -> HFSampler:
        """A sampler for the episodes of one kind of environment.

        Args:
            model: see the class.
            params: how to sample.
            core: of an environment of that kind: its tokenizer and its ``max_context`` count.

        Raises:
            ConfigError: the model has fewer embeddings than the tokenizer has ids, or fewer positions than the
                environment's context may take.
            ValueError: see the class.
        """
        tokenizer, facts = core.tokenizer, model_facts(unwrapped(model))
        if tokenizer.vocab_size > facts.vocab_size:
            raise ConfigError(
                f"the environment's tokenizer {tokenizer.name!r} has {tokenizer.vocab_size} ids, but {facts.name} has "
                f"only {facts.vocab_size} embeddings: make the environment with the model's own tokenizer"
            )
        limit = core.budgets.max_context
        if facts.max_positions is not None and limit > facts.max_positions:
            raise ConfigError(
                f"the environment's max_context={limit} is more than the {facts.max_positions} positions of "
                f"{facts.name}; make it with max_context={facts.max_positions} or less"
            )
        return cls(model, params, tokenizer.pad_id, vocab_size=tokenizer.vocab_size)

    @property
    def held_keys(self) -> frozenset[int]:
        """The episodes whose caches are held."""
        return frozenset(self._sequences)

    @property
    def cache_bytes(self) -> int:
        """The size of the keys and values held, in bytes."""
        return self._cache.num_bytes

    def submit(self, request: TurnRequest) -> None:
        """Queues a turn.

        Raises:
            ValueError: the key's last turn is still being generated; the context does not extend what the key has seen;
                it is empty or holds an id that the model does not know; or the turn does not fit the model's positions.
        """
        context = np.array(request.context, dtype=np.int32)
        self._check_request(request, context)
        sequence = self._sequences.get(request.key)
        if sequence is None:
            sequence = _Sequence(key=request.key, slot=self._cache.acquire(), context=context)
            self._sequences[request.key] = sequence
        else:
            _check_extends(sequence, context)
        sequence.context, sequence.ids, sequence.logprobs = context, [], []
        sequence.request = request
        sequence.random = np.random.Generator(np.random.PCG64(request.seed))
        self._waiting.append(sequence)

    def poll(self) -> list[SampledTurn]:
        """One model call: a prefill or a decoding step, by turns where both are due; gives the turns that finished.

        Raises:
            FloatingPointError: the logits are NaN or infinite.
        """
        if self._waiting and (self._prefill_next or not self._generating):
            self._prefill_next = False
            return self._prefill()
        self._prefill_next = True
        return self._decode() if self._generating else []

    def release(self, key: int) -> None:
        """Frees an episode's cache, in the middle of a turn too; unknown keys are ignored."""
        sequence = self._sequences.pop(key, None)
        if sequence is None:
            return
        for queue in (self._waiting, self._generating):
            if sequence in queue:
                queue.remove(sequence)
        self._cache.release(sequence.slot)

    def _check_request(self, request: TurnRequest, context: Int32Array) -> None:
        """Refuses what no model call could serve."""
        held = self._sequences.get(request.key)
        if held is not None and held.request is not None:
            raise ValueError(f"key {request.key}: its last turn is still being generated; poll until it is finished")
        if context.ndim != 1 or len(context) == 0:
            raise ValueError(f"key {request.key}: expected a context of shape [T] with T >= 1, got {context.shape}")
        if request.max_new_tokens < 1:
            raise ValueError(f"key {request.key}: max_new_tokens must be >= 1, got {request.max_new_tokens}")
        low, high = int(context.min()), int(context.max())
        if low < 0 or high >= self._facts.vocab_size:
            raise ValueError(
                f"key {request.key}: the context holds token id {low if low < 0 else high}, but {self._facts.name} has "
                f"{self._facts.vocab_size} embeddings: the environment's tokenizer is not the model's"
            )
        limit = self._facts.max_positions
        if limit is not None and len(context) + request.max_new_tokens > limit:
            raise ValueError(
                f"key {request.key}: a context of {len(context)} tokens and {request.max_new_tokens} new ones do not "
                f"fit the {limit} positions of {self._facts.name}; lower the environment's max_context"
            )

    def _prefill(self) -> list[SampledTurn]:
        """Feeds what is new of some waiting contexts and draws the first token of their turns."""
        batch = self._next_prefill()
        turns = self._advance(batch)
        for sequence in batch:
            self._waiting.remove(sequence)
            if sequence.request is not None:
                self._generating.append(sequence)
        return turns

    def _decode(self) -> list[SampledTurn]:
        """Advances generating sequences by one token: all of them, or those that waited longest."""
        batch = [self._generating[index] for index in range(min(self._max_batch, len(self._generating)))]
        turns = self._advance(batch)
        for sequence in batch:
            self._generating.popleft()
            if sequence.request is not None:
                self._generating.append(sequence)
        return turns

    def _next_prefill(self) -> list[_Sequence]:
        """The context that waited longest, and others that waste little beside it."""
        first = self._waiting[0]
        batch, width = [first], first.missing
        for sequence in list(self._waiting)[1:]:
            wider = max(width, sequence.missing)
            fits = len(batch) < self._max_batch and wider * (len(batch) + 1) <= self._max_prefill_tokens
            # Within a factor of two of the first, at most half of a row is padding beside it.
            if fits and first.missing <= 2 * sequence.missing and sequence.missing <= 2 * first.missing:
                batch.append(sequence)
                width = wider
        return batch

    def _advance(self, batch: Sequence[_Sequence]) -> list[SampledTurn]:
        """Feeds what the cache lacks of each sequence, draws the next token of each, and gives the finished turns."""
        by_slot = {sequence.slot: sequence for sequence in batch}
        rows = self._cache.arrange([SlotRow(sequence.slot, sequence.cached, sequence.missing) for sequence in batch])
        width = max(row.count for row in rows)
        ids = np.full((len(rows), width), self._pad, dtype=np.int64)
        for index, row in enumerate(rows):
            ids[index, width - row.count :] = _missing_tokens(by_slot[row.slot])
        logits = self._forward(torch.from_numpy(ids), rows)[:, : self._vocab_size]
        drawn = [by_slot[row.slot] for row in rows]
        uniforms = torch.tensor([sequence.random.random() for sequence in drawn], dtype=torch.float64)
        tokens, logprobs = draw_tokens(logits, self.params, uniforms)
        self._count(rows, width, prefill=any(not sequence.ids for sequence in batch))
        turns: list[SampledTurn] = []
        for sequence, token, logprob in zip(drawn, tokens.tolist(), logprobs.tolist(), strict=True):
            sequence.cached += sequence.missing
            turns.extend(_append(sequence, token, logprob))
        return turns

    def _forward(self, ids: Tensor, rows: Sequence[SlotRow]) -> Tensor:
        """The logits ``[B, V]`` after the last column of a left-padded batch ``[B, Q]``."""
        device = self._facts.device
        with torch.no_grad(), _evaluating(self.model):
            positions, mask = self._cache.begin(rows, ids.shape[1], device)
            if self._facts.mask_dtype is not None:
                mask = _additive(mask, self._facts.mask_dtype)
            output = self.model(
                input_ids=ids.to(device),
                attention_mask=mask,
                position_ids=positions,
                use_cache=True,
                logits_to_keep=1,
                **{self._facts.cache_argument: self._cache},
            )
        if self._cache.num_layers != self._facts.num_layers:
            raise ValueError(
                f"{self._facts.name} stored keys and values in {self._cache.num_layers} of its "
                f"{self._facts.num_layers} layers: it keeps state that this sampler does not know"
            )
        logits: Tensor = output.logits
        return logits[:, -1]

    def _count(self, rows: Sequence[SlotRow], width: int, *, prefill: bool) -> None:
        """Adds a model call to the counts."""
        fed = sum(row.count for row in rows)
        self.counts = SamplerCounts(
            prefill_calls=self.counts.prefill_calls + prefill,
            decode_calls=self.counts.decode_calls + (not prefill),
            prefilled_tokens=self.counts.prefilled_tokens + (fed if prefill else 0),
            padded_tokens=self.counts.padded_tokens + width * len(rows) - fed,
            sampled_tokens=self.counts.sampled_tokens + len(rows),
        )


def _check_extends(sequence: _Sequence, context: Int32Array) -> None:
    """Refuses a context that is not the key's last one, the tokens sampled since, and perhaps more.

    Raises:
        ValueError: it is shorter, or differs; the message names the first position that does.
    """
    known = np.concatenate([sequence.context, np.array(sequence.ids, dtype=np.int32)])
    if len(context) < len(known):
        raise ValueError(
            f"key {sequence.key}: a context of {len(context)} tokens cannot extend the {len(known)} that its cache has "
            "seen; release the key before starting another context"
        )
    different = np.flatnonzero(context[: len(known)] != known)
    if len(different):
        at = int(different[0])
        raise ValueError(
            f"key {sequence.key}: the context differs from what its cache has seen at position {at} (token "
            f"{int(context[at])}, seen {int(known[at])}); a context may only grow, so release the key to start another"
        )


def _missing_tokens(sequence: _Sequence) -> Int32Array:
    """The tokens to feed: the context's rest before the turn's first draw, then the token drawn last."""
    if sequence.ids:
        return np.array(sequence.ids[-1:], dtype=np.int32)
    return sequence.context[sequence.cached :]


def _append(sequence: _Sequence, token: int, logprob: float) -> Iterator[SampledTurn]:
    """Adds a drawn token to the turn and gives the turn where that finishes it."""
    request = sequence.request
    if request is None:
        raise RuntimeError(f"key {sequence.key}: a token was drawn outside a turn")
    sequence.ids.append(token)
    sequence.logprobs.append(logprob)
    if request.stop(token) or len(sequence.ids) >= request.max_new_tokens:
        sequence.request = None
        yield SampledTurn(
            key=sequence.key,
            ids=np.array(sequence.ids, dtype=np.int32),
            logprobs=np.array(sequence.logprobs, dtype=np.float32),
        )


def _additive(mask: Tensor, dtype: torch.dtype) -> Tensor:
    """A boolean mask as numbers to add to attention scores: 0 where a token may look, the lowest number elsewhere."""
    return torch.zeros(mask.shape, dtype=dtype, device=mask.device).masked_fill_(~mask, torch.finfo(dtype).min)


@contextmanager
def _evaluating(model: nn.Module) -> Iterator[None]:
    """Evaluation mode inside; afterwards every module is in the mode that it was in, whatever its parent's."""
    training = [module for module in model.modules() if module.training]
    for module in training:
        module.training = False
    try:
        yield
    finally:
        for module in training:
            module.training = True
