"""Which Hugging Face models the slot cache serves, and the few facts it needs of one.

A model whose attention looks at less than the whole context (sliding windows, chunks), or that keeps other state than
keys and values, would give wrong numbers rather than an error, so it is refused by name before anything runs.
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.nn.parallel import DataParallel, DistributedDataParallel

_ATTENTION = ("sdpa", "eager")


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """What the sampler knows of a model.

    Attributes:
        name: for messages, such as ``LlamaForCausalLM``.
        vocab_size: rows of the input embedding.
        max_positions: the longest context, or None where the config sets none.
        num_layers: how many layers must store keys and values.
        device: of the input embedding, where token ids go.
        mask_dtype: None for a boolean mask; the type of an additive one where attention is eager.
        cache_argument: what the model's forward calls its cache: "past_key_values", or "cache" in later transformers.
    """

    name: str
    vocab_size: int
    max_positions: int | None
    num_layers: int
    device: torch.device
    mask_dtype: torch.dtype | None
    cache_argument: str


def unwrapped(model: nn.Module) -> nn.Module:
    """The module inside data-parallel wrappers, whose own forward would synchronise ranks of different lengths."""
    while isinstance(model, (DistributedDataParallel, DataParallel)):
        model = model.module
    return model


def model_facts(model: nn.Module) -> ModelFacts:
    """Reads what the sampler needs from a causal language model.

    Args:
        model: a ``transformers`` model, bare or inside PEFT's or accelerate's wrappers.

    Raises:
        ValueError: the model is of a kind that the slot cache would compute wrongly; the message says which and why.
    """
    config = getattr(model, "config", None)
    if config is None or not hasattr(config, "get_text_config"):
        raise ValueError(f"expected a transformers causal language model with a config, got {type(model).__name__}")
    # A PEFT wrapper hides what it wraps behind a forward of *args and **kwargs.
    inner: Any = getattr(model, "get_base_model", lambda: model)()
    name = type(inner).__name__
    text = config.get_text_config()
    reason = _why_not(model, config, text)
    if reason is not None:
        raise ValueError(f"{name} cannot be sampled with a cache that outlives a turn: {reason}")
    embedding = _input_embedding(model)
    attention = getattr(config, "_attn_implementation", None)
    return ModelFacts(
        name=name,
        vocab_size=int(embedding.weight.shape[0]),
        max_positions=getattr(text, "max_position_embeddings", None),
        num_layers=int(text.num_hidden_layers),
        device=embedding.weight.device,
        mask_dtype=embedding.weight.dtype if attention == "eager" else None,
        cache_argument="cache" if "cache" in inspect.signature(inner.forward).parameters else "past_key_values",
    )


def _why_not(model: nn.Module, config: Any, text: Any) -> str | None:
    """The reason to refuse a model, or None."""
    if getattr(config, "is_encoder_decoder", False):
        return "it is an encoder-decoder model"
    if not getattr(text, "num_hidden_layers", None) or not getattr(text, "num_attention_heads", None):
        return "its config names no attention layers"
    other = sorted({str(kind) for kind in _layer_kinds(text)} - {"full_attention", "attention"})
    if other:
        return f"its layers include {', '.join(other)}, and only full attention is supported"
    window = _sliding_window(text)
    if window is not None:
        return f"its attention slides over a window of {window} tokens, and only full attention is supported"
    if "longrope" in _rope_kinds(text):
        return "its longrope positions change with the longest row of a batch, which cached keys cannot follow"
    attention = getattr(config, "_attn_implementation", None)
    if attention not in (*_ATTENTION, None):
        return f'its attention is {attention!r}; load it with attn_implementation="sdpa" (or "eager")'
    peft_configs = getattr(model, "peft_config", None) or {}
    if any(getattr(peft, "is_prompt_learning", False) for peft in peft_configs.values()):
        return "its PEFT adapter learns a prompt, which would be put before every piece of the context"
    return None


def _layer_kinds(text: Any) -> list[Any]:
    """The kinds of layer that a config lists; empty where it lists none."""
    for field in ("layer_types", "layers_block_type", "attention_layers"):
        kinds = getattr(text, field, None)
        if kinds:
            return ["full_attention" if kind == "global" else kind for kind in kinds]
    return []


def _sliding_window(text: Any) -> int | None:
    """The window of a model that slides without saying so in its layer kinds, or None."""
    if getattr(text, "layer_types", None) or getattr(text, "use_sliding_window", None) is False:
        return None
    window = getattr(text, "sliding_window", None)
    limit = getattr(text, "max_position_embeddings", None)
    if window is None or (limit is not None and window >= limit):
        return None
    return int(window)


def _rope_kinds(text: Any) -> set[str]:
    """The kinds of rotary positions that a config names, whether one for the model or one per kind of layer."""
    rope = getattr(text, "rope_parameters", None) or getattr(text, "rope_scaling", None) or {}
    nested = [rope, *(part for part in rope.values() if isinstance(part, dict))]
    return {str(part.get("rope_type", part.get("type"))) for part in nested}


def _input_embedding(model: nn.Module) -> nn.Embedding:
    """The module that maps token ids to vectors.

    Raises:
        ValueError: there is none.
    """
    getter = getattr(model, "get_input_embeddings", None)
    embedding = getter() if getter is not None else None
    if embedding is None or not hasattr(embedding, "weight"):
        raise ValueError(f"{type(model).__name__} has no input embedding")
    return embedding  # type: ignore[no-any-return]
