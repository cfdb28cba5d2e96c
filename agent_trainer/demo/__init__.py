"""The demo's small policy: how it was warm-started, and the folder with its weights and tokenizer."""

from __future__ import annotations

from pathlib import Path

POLICY_FOLDER = Path(__file__).resolve().parent / "policy"
"""A transformers model of a million parameters with its tokenizer and chat template, made by ``make_policy``."""
