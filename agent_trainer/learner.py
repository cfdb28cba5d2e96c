"""Log-probabilities and entropies of chosen tokens under a causal language model, with their gradient.

Logits are computed only where a token is asked for: the language-model head sees the hidden states just before those
tokens and no others, so the environment's text costs a pass through the body and nothing at the head.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from agent_trainer.batch import flush_left

_IGNORED = -100


@dataclass(frozen=True, slots=True)
class Scores:
    """What a model says of the tokens asked for; float32 ``[B, T]`` each, zero elsewhere.

    Attributes:
        logprobs: of the tokens that stand there.
        entropy: of the distributions that they were drawn from, in nats.
    """

    logprobs: Tensor
    entropy: Tensor


@dataclass(frozen=True, slots=True)
class TokenScorer:
    """Scores tokens the way they were sampled.

    Attributes:
        temperature: > 0; divides the logits, as the sampler does.
        vocab_size: ids from here on have no probability (rows of the embedding beyond the tokenizer); None for none.
        fused: let the model's own fused head (TRL's ``add_fused_lm_head``) do it, which never holds the logits of more
            than a tile; for large vocabularies on accelerators. It knows no ``vocab_size``.
        entropy_gradient: let the entropy carry a gradient, for a loss that has it; otherwise it is only a number.
    """

    temperature: float
    vocab_size: int | None = None
    fused: bool = False
    entropy_gradient: bool = False

    def __call__(self, model: nn.Module, rows: Mapping[str, Tensor], where: Tensor) -> Scores:
        """Scores the completion tokens where ``where``, bool ``[B, T]``, is True.

        Args:
            model: a transformers causal language model, perhaps wrapped.
            rows: ``prompt_ids``, ``prompt_mask`` (``[B, P]``), ``completion_ids``, ``completion_mask`` (``[B, T]``).
            where: the tokens asked for. Where it is all False the scores are zero, attached to the model's graph.
        """
        ids, starts = flush_left(
            rows["prompt_ids"], rows["prompt_mask"], rows["completion_ids"], rows["completion_mask"]
        )
        row, column = torch.nonzero(where, as_tuple=True)
        positions = row * ids.shape[1] + starts[row] + column
        targets = rows["completion_ids"][where]
        if self.fused:
            logprobs, entropy = self._fused(model, ids, positions, targets)
        else:
            logits = _logits_before(model, ids, positions)[:, : self.vocab_size]
            logprobs, entropy = logprobs_and_entropy(logits, targets, self.temperature)
        if not self.entropy_gradient:
            entropy = entropy.detach()
        blank = torch.zeros(where.shape, dtype=torch.float32, device=where.device)
        return Scores(blank.masked_scatter(where, logprobs), blank.masked_scatter(where, entropy))

    def in_chunks(self, model: nn.Module, rows: Mapping[str, Tensor], where: Tensor, chunk_rows: int) -> Tensor:
        """Log-probabilities ``[B, T]`` without gradient, a few rows at a time to bound the memory."""
        chunks = []
        for start in range(0, len(where), chunk_rows):
            part = slice(start, start + chunk_rows)
            chosen = {
                name: rows[name][part] for name in ("prompt_ids", "prompt_mask", "completion_ids", "completion_mask")
            }
            with torch.no_grad():
                chunks.append(self(model, chosen, where[part]).logprobs)
        return torch.cat(chunks)

    def _fused(self, model: nn.Module, ids: Tensor, positions: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        labels = torch.full_like(ids, _IGNORED)
        labels.view(-1)[positions] = targets
        output = model(input_ids=ids, labels=labels, fused_lm_head=True)
        # The head's answers stand one column before the label's: nothing precedes the first token.
        before = positions - torch.div(positions, ids.shape[1], rounding_mode="floor") - 1
        logprobs = output.log_probs.reshape(-1)[before].float()
        # The head of a reference that TRL loaded gives no entropy, and nobody asks for it.
        entropy = torch.zeros_like(logprobs) if output.entropy is None else output.entropy.reshape(-1)[before].float()
        return logprobs, entropy


def logprobs_and_entropy(logits: Tensor, ids: Tensor, temperature: float = 1.0) -> tuple[Tensor, Tensor]:
    """float32 ``[N]`` log-probabilities of ``ids``, int64 ``[N]``, and entropies in nats, of logits ``[N, V]``."""
    scaled = logits.float() / temperature
    distribution = torch.log_softmax(scaled, dim=-1)
    entropy = -(distribution.exp() * distribution).sum(dim=-1)
    return distribution.gather(-1, ids[:, None])[:, 0], entropy


def output_head(model: nn.Module) -> nn.Module:
    """The module that maps hidden states to logits.

    Raises:
        ValueError: the model names none.
    """
    inner: Any = model
    while not hasattr(inner, "get_output_embeddings") and hasattr(inner, "module"):
        inner = inner.module
    getter = getattr(inner, "get_output_embeddings", None)
    head = None if getter is None else getter()
    if head is None:
        raise ValueError(f"{type(inner).__name__} has no output embeddings: expected a causal language model")
    return head  # type: ignore[no-any-return]


def _logits_before(model: nn.Module, ids: Tensor, positions: Tensor) -> Tensor:
    """Logits ``[N, V]`` at the places just before ``positions``, int64 ``[N]`` into the flat ``[B * L]``."""
    with _head_sees_only(output_head(model), positions - 1):
        # No attention mask: padding stands behind the tokens, where causal attention never looks.
        logits: Tensor = model(input_ids=ids, use_cache=False).logits
    if logits.shape[0] != len(positions):
        raise ValueError(
            f"{type(model).__name__} gave logits of shape {tuple(logits.shape)} for {len(positions)} positions: its "
            "forward does not call its output embeddings on the hidden states, which this learner needs"
        )
    return logits


@contextmanager
def _head_sees_only(head: nn.Module, flat: Tensor) -> Iterator[None]:
    """Inside, the head is given ``[N, H]``: the hidden states at ``flat`` of the ``[B, L, H]`` that come."""

    def choose(_module: nn.Module, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        hidden = inputs[0]
        return (hidden.reshape(-1, hidden.shape[-1]).index_select(0, flat.to(hidden.device)), *inputs[1:])

    handle = head.register_forward_pre_hook(choose)
    try:
        yield
    finally:
        handle.remove()
