"""Tiny random models of real architectures for tests of samplers."""

from __future__ import annotations

import torch
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedModel, Qwen3Config, Qwen3ForCausalLM

VOCAB = 61


def tiny_model(
    kind: str = "llama", attention: str = "sdpa", max_positions: int = 256, vocab_size: int = VOCAB
) -> PreTrainedModel:
    """A float32 model of two layers with grouped queries; large initial weights, so that its choices differ."""
    torch.manual_seed(7)
    sizes = {
        "vocab_size": vocab_size,
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": max_positions,
        "initializer_range": 0.3,
        "attn_implementation": attention,
        "pad_token_id": 0,
        "bos_token_id": 1,
        "eos_token_id": 2,
    }
    if kind == "llama":
        return LlamaForCausalLM(LlamaConfig(**sizes)).eval()
    return Qwen3ForCausalLM(Qwen3Config(**sizes, head_dim=16)).eval()
