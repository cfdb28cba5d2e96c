"""From logits to tokens: temperature, top-k, top-p, and one draw per row from a uniform number that the caller brings.

The caller's uniform numbers make a row's token a function of its own logits and its own random stream, whatever else is
in the batch.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from agent_trainer.sampler.base import SamplingParams


def check_sampling_params(params: SamplingParams) -> None:
    """Refuses values outside their ranges.

    Raises:
        ValueError: a temperature below 0 or not finite, a negative top_k, or a top_p outside (0, 1].
    """
    if not math.isfinite(params.temperature) or params.temperature < 0:
        raise ValueError(f"temperature must be a finite number >= 0, got {params.temperature!r}")
    if params.top_k < 0:
        raise ValueError(f"top_k must be >= 0 (0 keeps every token), got {params.top_k!r}")
    if not 0 < params.top_p <= 1:
        raise ValueError(f"top_p must be in (0, 1] (1 keeps every token), got {params.top_p!r}")


def sampling_logprobs(logits: Tensor, params: SamplingParams) -> Tensor:
    """The distribution that tokens are drawn from.

    The temperature comes first, then top-k, then top-p within what top-k kept; what is left is renormalised. Ties at
    the border are broken by ``torch.topk`` and ``torch.sort``, so that exactly k tokens stay. At temperature 0 it is
    the model's own distribution, untouched: the choice is greedy, and its log-probability is the untempered one.

    Args:
        logits: ``[B, V]`` of any float type.
        params: checked by ``check_sampling_params``.

    Returns:
        float32 ``[B, V]``, -inf where a token was cut.
    """
    scores = logits.float()
    if params.temperature == 0:
        return torch.log_softmax(scores, dim=-1)
    scores = scores / params.temperature
    if 0 < params.top_k < scores.shape[-1]:
        kept, ids = torch.topk(scores, params.top_k, dim=-1)
        scores = torch.full_like(scores, -math.inf).scatter_(-1, ids, kept)
    if params.top_p < 1:
        ordered, ids = torch.sort(scores, dim=-1, descending=True)
        probabilities = torch.softmax(ordered, dim=-1)
        before = torch.cumsum(probabilities, dim=-1) - probabilities
        # The most likely token stays whatever top_p is: nothing comes before it.
        ordered = ordered.masked_fill(before >= params.top_p, -math.inf)
        scores = torch.full_like(scores, -math.inf).scatter_(-1, ids, ordered)
    return torch.log_softmax(scores, dim=-1)


def draw_tokens(logits: Tensor, params: SamplingParams, uniforms: Tensor) -> tuple[Tensor, Tensor]:
    """Draws one token per row by inverting the cumulative distribution.

    Args:
        logits: ``[B, V]`` of any float type.
        params: how to sample; at temperature 0 the most likely token is taken and ``uniforms`` is not used.
        uniforms: float64 ``[B]`` in [0, 1).

    Returns:
        int64 ``[B]`` ids and float32 ``[B]`` log-probabilities of the distribution drawn from.

    Raises:
        FloatingPointError: a row's logits hold NaN or infinity, so that no distribution exists.
    """
    logprobs = sampling_logprobs(logits, params)
    if params.temperature == 0:
        ids = logprobs.argmax(dim=-1)
    else:
        # Apple's devices have no float64; float32 sums are good enough for drawing there.
        precision = torch.float32 if logprobs.device.type == "mps" else torch.float64
        cumulative = logprobs.exp().to(precision).cumsum(dim=-1)
        total = cumulative[:, -1:].contiguous()
        targets = uniforms.to(device=logprobs.device, dtype=precision)[:, None] * total
        ids = torch.searchsorted(cumulative, targets, right=True)
        # A product rounded up to the total would point past the last token that has a probability.
        ids = torch.minimum(ids, torch.searchsorted(cumulative, total))[:, 0]
        ids = ids.clamp(max=logprobs.shape[-1] - 1)
    chosen = logprobs.gather(-1, ids[:, None])[:, 0]
    if not bool(torch.isfinite(chosen).all()):
        rows = (~torch.isfinite(chosen)).nonzero()[:, 0].tolist()
        raise FloatingPointError(
            f"the model gave logits that are NaN or infinite in row(s) {rows} of a batch of {len(chosen)}: its weights "
            "have diverged, or its precision is too low"
        )
    return ids, chosen
