"""What an index folder refuses, and how places become retrievers."""

from __future__ import annotations

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from agent_envs.errors import ConfigError, DataError
from agent_envs.retrieval.base import Retriever
from agent_envs.retrieval.building import KINDS, BuildSettings, CorpusSource, build_index
from agent_envs.retrieval.client import HttpRetriever
from agent_envs.retrieval.hybrid import HybridRetriever
from agent_envs.retrieval.index import load_index, open_index
from agent_envs.retrieval.manifest import check_files, read_manifest
from tests.agent_envs.retrieval.word_encoder import WordEncoder, made_up_passages

PASSAGES = made_up_passages(300)
QUERIES = [passage.text for passage in PASSAGES[::20]]


@pytest.fixture(scope="module")
def indexes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with an index of each kind."""
    root = tmp_path_factory.mktemp("indexes")
    for kind in KINDS:
        encoder = None if kind == "bm25" else WordEncoder()
        build_index(CorpusSource("made up", lambda: PASSAGES), root / kind, BuildSettings(kind), encoder)
    return root


def copied(folder: Path, to: Path) -> Path:
    to.mkdir()
    for path in folder.iterdir():
        (to / path.name).write_bytes(path.read_bytes())
    return to


def opened(folder: Path) -> Retriever:
    return load_index(folder, None if read_manifest(folder).encoder is None else WordEncoder())


def rewritten(folder: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    path = folder / "manifest.json"
    manifest = json.loads(path.read_bytes())
    change(manifest)
    path.write_text(json.dumps(manifest), encoding="utf-8")


@pytest.mark.parametrize("kind", KINDS)
def test_a_copied_read_only_folder_finds_the_same(kind: str, indexes: Path, tmp_path: Path) -> None:
    copy = copied(indexes / kind, tmp_path / "copy")
    for path in copy.iterdir():
        path.chmod(0o444)
    copy.chmod(0o555)
    try:
        assert opened(copy).search(QUERIES, 4) == opened(indexes / kind).search(QUERIES, 4)
    finally:
        copy.chmod(0o755)


@pytest.mark.parametrize("kind", KINDS)
def test_every_damaged_or_missing_file_is_found(kind: str, indexes: Path, tmp_path: Path) -> None:
    for number, record in enumerate(read_manifest(indexes / kind).files):
        folder = copied(indexes / kind, tmp_path / str(number))
        path = folder / record.name
        content = bytearray(path.read_bytes())
        content[len(content) // 2] ^= 1
        path.write_bytes(content)
        with pytest.raises(DataError, match=f"{record.name}: the file is damaged: its SHA-256"):
            opened(folder)
        path.write_bytes(content[:-1])
        with pytest.raises(DataError, match=f"{record.name}: the file is damaged: expected .* bytes, found"):
            load_index(folder, verify=False)
        path.unlink()
        with pytest.raises(DataError, match=f"the file {record.name} of the index is missing"):
            load_index(folder, verify=False)


def test_only_lengths_are_looked_at_where_nothing_is_to_be_read(indexes: Path, tmp_path: Path) -> None:
    folder = copied(indexes / "flat", tmp_path / "copy")
    path = folder / "vectors.npy"
    path.write_bytes(path.read_bytes()[:-1] + b"\0")
    check_files(folder, read_manifest(folder), verify=False)
    with pytest.raises(DataError, match="SHA-256"):
        check_files(folder, read_manifest(folder), verify=True)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda manifest: manifest.update(format=2),
            "has format 2, and this version of agent-r1 knows formats up to 1",
        ),
        (lambda manifest: manifest.pop("passages"), "the description of the index is damaged"),
        (lambda manifest: manifest.update(passages=299), "expected 299 passages, found 300"),
        (
            lambda manifest: manifest.update(kind="lsh", encoder=None),
            "of the kind 'lsh', which this version doesn't know",
        ),
    ],
)
def test_a_manifest_that_does_not_fit_is_refused(
    change: Callable[[dict[str, Any]], Any], message: str, indexes: Path, tmp_path: Path
) -> None:
    folder = copied(indexes / "bm25", tmp_path / "copy")
    rewritten(folder, change)
    with pytest.raises(DataError, match=message):
        load_index(folder)


def test_a_folder_that_is_no_index_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"expected an index folder, but it has no manifest.json. Where a build was"):
        load_index(tmp_path / "nothing")
    (tmp_path / "manifest.json").write_text("[1", encoding="utf-8")
    with pytest.raises(DataError, match="cannot be read"):
        load_index(tmp_path)


def test_another_encoder_than_the_one_that_made_the_vectors_is_refused(indexes: Path) -> None:
    with pytest.raises(ConfigError, match=r"made by the encoder 'words', and 'words' is another: fingerprint 'other'"):
        load_index(indexes / "flat", WordEncoder("other"))
    with pytest.raises(ConfigError, match="a BM25 index, which needs no encoder"):
        load_index(indexes / "bm25", WordEncoder())


def test_places_become_retrievers(indexes: Path) -> None:
    bm25 = str(indexes / "bm25")
    assert open_index(bm25) is open_index(bm25)
    assert open_index(bm25).search(QUERIES, 3) == load_index(bm25).search(QUERIES, 3)
    assert isinstance(open_index("http://127.0.0.1:9"), HttpRetriever)
    fused = open_index(f"{bm25}, {bm25}")
    assert isinstance(fused, HybridRetriever)
    passages = [[hit.passage for hit in hits] for hits in fused.search(QUERIES, 3)]
    assert passages == [[hit.passage for hit in hits] for hits in load_index(bm25).search(QUERIES, 3)]


def test_a_folder_that_was_built_anew_is_opened_anew(tmp_path: Path) -> None:
    folder = tmp_path / "index"
    build_index(CorpusSource("one", lambda: PASSAGES[:5]), folder, BuildSettings("bm25"))
    first = open_index(str(folder))
    for path in folder.iterdir():
        path.unlink()
    build_index(CorpusSource("two", lambda: PASSAGES[5:9]), folder, BuildSettings("bm25"))
    assert open_index(str(folder)) is not first


@pytest.mark.parametrize("kind", KINDS)
def test_threads_share_an_index(kind: str, indexes: Path) -> None:
    retriever = opened(indexes / kind)
    expected = [retriever.search([query], 3)[0] for query in QUERIES]
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(lambda query: retriever.search([query], 3)[0], QUERIES * 6)) == expected * 6
