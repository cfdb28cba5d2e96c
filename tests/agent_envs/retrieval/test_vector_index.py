"""The parameters of each kind by the size of the corpus, and recall against all inner products."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from agent_envs.errors import ConfigError
from agent_envs.retrieval.building import BuildSettings, CorpusSource, build_index
from agent_envs.retrieval.index import load_index
from agent_envs.retrieval.vector_index import choose_parameters, open_vectors
from tests.agent_envs.retrieval.word_encoder import WordEncoder, made_up_passages


@pytest.mark.parametrize(
    ("kind", "passages", "dimension", "expected"),
    [
        ("flat", 10, 8, {}),
        ("ivf", 1, 8, {"nlist": 1, "nprobe": 1}),
        ("ivf", 6119, 384, {"nlist": 156, "nprobe": 8}),
        ("ivf", 1_000_000, 384, {"nlist": 4000, "nprobe": 125}),
        ("ivfpq", 1_000_000, 384, {"nlist": 4000, "nprobe": 125, "pq_m": 96}),
        ("ivfpq", 1000, 7, {"nlist": 25, "nprobe": 8, "pq_m": 1}),
        ("hnsw", 5, 8, {"m": 32, "ef_construction": 80, "ef_search": 64}),
    ],
)
def test_parameters_follow_the_size_of_the_corpus(
    kind: str, passages: int, dimension: int, expected: dict[str, int]
) -> None:
    assert choose_parameters(kind, passages, dimension, {}) == expected


def test_given_parameters_take_precedence_and_wrong_ones_are_refused() -> None:
    assert choose_parameters("ivf", 100, 8, {"nlist": 5}) == {"nlist": 5, "nprobe": 5}
    assert choose_parameters("ivf", 10**6, 8, {"nlist": 640}) == {"nlist": 640, "nprobe": 20}
    assert choose_parameters("ivf", 10**6, 8, {"nlist": 640, "nprobe": 3}) == {"nlist": 640, "nprobe": 3}
    with pytest.raises(ConfigError, match="flat has no parameter 'nlist'; it has none"):
        choose_parameters("flat", 100, 8, {"nlist": 5})


@pytest.mark.parametrize(
    ("kind", "parameters"),
    [
        ("ivf", {"nlist": 10, "nprobe": 10}),
        ("hnsw", {"ef_search": 400}),
        ("flat", {}),
    ],
)
def test_a_search_of_everything_is_exact(kind: str, parameters: dict[str, float], tmp_path: Path) -> None:
    passages = made_up_passages(400)
    encoder = WordEncoder()
    settings = BuildSettings(kind, parameters, shard_bytes=16 * 4 * 150)
    manifest = build_index(CorpusSource("made up", lambda: passages), tmp_path / "index", settings, encoder)
    vectors = encoder.encode_passages(passages)
    queries = vectors[::9]
    chosen = {name: int(value) for name, value in manifest.parameters.items()}
    scores, _ = open_vectors(tmp_path / "index", kind, chosen).search(queries, 5)
    expected = -np.sort(-(queries @ vectors.T), axis=1)[:, :5]
    np.testing.assert_allclose(scores, expected, atol=1e-5)


def test_missing_hits_of_a_narrow_search_are_no_hits(tmp_path: Path) -> None:
    passages = made_up_passages(300)
    settings = BuildSettings("ivf", {"nlist": 60, "nprobe": 1})
    build_index(CorpusSource("made up", lambda: passages), tmp_path / "index", settings, WordEncoder())
    (hits,) = load_index(tmp_path / "index", WordEncoder()).search(["river mill"], 300)
    assert 0 < len(hits) < 300
    assert len({hit.passage for hit in hits}) == len(hits)
