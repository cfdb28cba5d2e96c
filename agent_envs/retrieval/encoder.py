"""Encoders: texts in, vectors of length 1 out."""

from __future__ import annotations

import functools
import hashlib
import re
import threading
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from agent_envs.data.records import Passage
from agent_envs.errors import ConfigError, DataError, MissingExtraError
from agent_envs.retrieval.manifest import EncoderRecord
from agent_envs.types import Float32Array

DEFAULT_ENCODER = "sentence-transformers/all-MiniLM-L6-v2"

_BGE_ENGLISH = "Represent this sentence for searching relevant passages: "
_BGE_CHINESE = "为这个句子生成表示以用于检索相关文章："
# What models were trained with, by their names: (pattern, before a query, before a passage). The first match holds.
_PREFIXES = (
    (r"\be5\b.*instruct", "Instruct: Given a web search query, retrieve relevant passages\nQuery: ", ""),
    (r"\be5\b", "query: ", "passage: "),
    (r"\bbge\b.*\ben\b", _BGE_ENGLISH, ""),
    (r"\bbge\b.*\bzh\b", _BGE_CHINESE, ""),
)


class Encoder(Protocol):
    """Makes vectors of length 1 (float32, ``[len(texts), dimension]``). Safe to call from several threads at once."""

    @property
    def record(self) -> EncoderRecord:
        """Which model it is, and what it puts before texts."""
        ...

    def encode_queries(self, queries: Sequence[str]) -> Float32Array:
        """The vectors of queries."""
        ...

    def encode_passages(self, passages: Sequence[Passage]) -> Float32Array:
        """The vectors of passages."""
        ...


def prefixes_of(model: str) -> tuple[str, str]:
    """What goes before a query and before a passage, as the model was trained; nothing where that isn't known."""
    name = model.lower().replace("_", "-")
    return next(((query, passage) for pattern, query, passage in _PREFIXES if re.search(pattern, name)), ("", ""))


class SentenceEncoder:
    """A sentence-transformers model. One batch at a time goes through it, whatever threads ask."""

    def __init__(
        self, model: str, query_prefix: str | None = None, passage_prefix: str | None = None, batch_size: int = 64
    ) -> None:
        """Loads the model, on the accelerator where there is one.

        Args:
            model: a folder, or a name on the Hugging Face hub.
            query_prefix: what goes before each query; None for what the model was trained with (E5, BGE), else nothing.
            passage_prefix: what goes before each passage, likewise.
            batch_size: texts that go through the model together.

        Raises:
            MissingExtraError: the extra ``retrieval`` is not installed.
            ConfigError: there is no such model.
        """
        self._model = _load_model(model)
        self._lock = threading.Lock()
        self._batch_size = batch_size
        by_name = prefixes_of(model)
        self.record = EncoderRecord(
            name=model,
            fingerprint=_fingerprint(self._model),
            dimension=int(self._model.get_embedding_dimension()),
            query_prefix=by_name[0] if query_prefix is None else query_prefix,
            passage_prefix=by_name[1] if passage_prefix is None else passage_prefix,
        )

    def encode_queries(self, queries: Sequence[str]) -> Float32Array:
        """The vectors of queries, each behind the query prefix."""
        return self._encode(list(queries), self.record.query_prefix)

    def encode_passages(self, passages: Sequence[Passage]) -> Float32Array:
        """The vectors of passages: title and text on two lines, behind the passage prefix."""
        return self._encode([f"{passage.title}\n{passage.text}" for passage in passages], self.record.passage_prefix)

    def _encode(self, texts: list[str], prefix: str) -> Float32Array:
        if not texts:
            return np.zeros((0, self.record.dimension), np.float32)
        with self._lock:
            vectors = self._model.encode(
                texts,
                prompt=prefix,
                batch_size=self._batch_size,
                normalize_embeddings=True,
                show_progress_bar=False,
                convert_to_numpy=True,
            )
        return np.ascontiguousarray(vectors, dtype=np.float32)


@functools.lru_cache(maxsize=4)
def load_encoder(model: str, query_prefix: str | None = None, passage_prefix: str | None = None) -> SentenceEncoder:
    """The encoder of that name, loaded once per process.

    Raises:
        MissingExtraError: the extra ``retrieval`` is not installed.
        ConfigError: there is no such model.
    """
    return SentenceEncoder(model, query_prefix, passage_prefix)


def require_finite(vectors: Float32Array, names: Sequence[str]) -> Float32Array:
    """The vectors, if every number is finite.

    Raises:
        DataError: one is not; ``names`` says whose.
    """
    if not np.isfinite(vectors).all():
        row = int(np.flatnonzero(~np.isfinite(vectors).all(axis=1))[0])
        raise DataError(f"the encoder gave a vector that is not finite for {names[row]!r}: expected finite numbers")
    return vectors


def _load_model(model: str) -> Any:
    try:
        from sentence_transformers import SentenceTransformer
    except ImportError as error:
        raise MissingExtraError('an encoder needs sentence-transformers: pip install "agent-r1[retrieval]"') from error
    try:
        return SentenceTransformer(model)
    except (OSError, ValueError) as error:
        first_line = (str(error).splitlines() or [repr(error)])[0]
        raise ConfigError(
            f"cannot load the encoder {model!r}: expected a sentence-transformers folder, or a name on the Hugging "
            f"Face hub ({first_line})"
        ) from error


def _fingerprint(model: Any) -> str:
    """A hash of the weights, the vocabulary and the parts: what decides the vectors, and not where the model lies."""
    digest = hashlib.sha256()
    for name, tensor in sorted(model.state_dict().items()):
        digest.update(f"{name} {tuple(tensor.shape)}".encode())
        digest.update(tensor.detach().float().cpu().numpy().tobytes())
    vocabulary = sorted(model.tokenizer.get_vocab().items()) if hasattr(model.tokenizer, "get_vocab") else []
    parts = [type(part).__name__ for part in model]
    pooling = [part.get_config_dict().get("pooling_mode") for part in model if hasattr(part, "get_config_dict")]
    digest.update(repr((vocabulary, parts, pooling, model.max_seq_length)).encode())
    return digest.hexdigest()
