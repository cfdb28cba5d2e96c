"""Index folders: finished in the same bytes after an interruption anywhere, and wrong settings refused."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path

import pytest

from agent_envs.data.records import Passage
from agent_envs.errors import ConfigError, DataError
from agent_envs.retrieval.building import KINDS, BuildSettings, CorpusSource, build_index, file_source
from agent_envs.retrieval.index import load_index
from agent_envs.retrieval.manifest import read_manifest
from agent_envs.retrieval.passage_store import passages_sha256
from tests.agent_envs.retrieval.word_encoder import WordEncoder, made_up_passages

PASSAGES = made_up_passages(300)
SOURCE = CorpusSource("made up", lambda: PASSAGES)
PIECES = {"chunk_passages": 70, "encode_passages": 64, "shard_bytes": 16 * 4 * 120}  # 5 chunks, 5 batches, 3 shards
QUERIES = [f"{passage.title} {passage.text}" for passage in PASSAGES[::10]]


class KilledError(Exception):
    """Stands for the end of the process."""


def build(folder: Path, kind: str, kill_at: int = -1, source: CorpusSource = SOURCE) -> int:
    """Builds until the call ``kill_at`` of the progress; gives the number of calls."""
    calls = 0

    def progress(stage: str, done: int, total: int | None) -> None:
        nonlocal calls
        if calls == kill_at:
            raise KilledError
        calls += 1

    encoder = None if kind == "bm25" else WordEncoder()
    build_index(source, folder, BuildSettings(kind, **PIECES), encoder, progress)
    return calls


def contents(folder: Path) -> dict[str, str]:
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(folder.iterdir())}


@pytest.mark.parametrize("kind", KINDS)
def test_an_interruption_anywhere_ends_in_the_same_bytes(kind: str, tmp_path: Path) -> None:
    calls = build(tmp_path / "whole", kind)
    expected = contents(tmp_path / "whole")
    assert calls > 8
    for kill_at in range(0, calls, 3):
        folder = tmp_path / f"killed at {kill_at}"
        with pytest.raises(KilledError):
            build(folder, kind, kill_at)
        with pytest.raises(DataError, match="run the same `agentr1 index build` again"):
            read_manifest(folder)
        build(folder, kind)
        assert contents(folder) == expected


KILLED_BUILD = """
import sys, time
from pathlib import Path
from agent_envs.retrieval.building import BuildSettings, build_index
from tests.agent_envs.retrieval import test_building as t

class Slow(t.WordEncoder):
    def encode_passages(self, passages):
        time.sleep(0.05)
        return super().encode_passages(passages)

encoder = Slow() if sys.argv[2] == "slow" else t.WordEncoder()
build_index(t.SOURCE, Path(sys.argv[1]), BuildSettings("ivf", **{**t.PIECES, "encode_passages": 5}), encoder)
"""


def test_a_build_that_was_killed_with_signal_9_ends_in_the_same_bytes(tmp_path: Path, project_root: Path) -> None:
    def command(name: str, speed: str) -> list[str]:
        return [sys.executable, "-c", KILLED_BUILD, str(tmp_path / name), speed]

    process = subprocess.Popen(command("killed", "slow"), cwd=project_root)
    vectors = tmp_path / "killed" / "vectors.npy"
    deadline = time.monotonic() + 120
    while not (vectors.exists() and vectors.stat().st_size > 3000):
        assert process.poll() is None, "the build ended before it could be killed"
        assert time.monotonic() < deadline
        time.sleep(0.01)
    process.kill()
    assert process.wait() == -9
    assert not (tmp_path / "killed" / "manifest.json").exists()
    for name in ("killed", "whole"):
        subprocess.run(command(name, "quick"), cwd=project_root, check=True)
    assert contents(tmp_path / "killed") == contents(tmp_path / "whole")


@pytest.mark.parametrize("kind", KINDS)
def test_an_index_finds_what_was_put_in(kind: str, tmp_path: Path) -> None:
    build(tmp_path / "index", kind)
    retriever = load_index(tmp_path / "index", None if kind == "bm25" else WordEncoder())
    found = retriever.search(QUERIES, 3)
    right = sum(hits[0].passage == passage for hits, passage in zip(found, PASSAGES[::10], strict=True))
    assert right >= {"ivfpq": 22}.get(kind, 28)  # of 30; the codes of ivfpq are coarse
    assert retriever.search(QUERIES, 3) == found


def test_the_manifest_describes_the_index(tmp_path: Path) -> None:
    build(tmp_path / "index", "ivf")
    manifest = read_manifest(tmp_path / "index")
    assert (manifest.kind, manifest.passages, manifest.source) == ("ivf", 300, "made up")
    assert manifest.corpus_sha256 == passages_sha256(PASSAGES)
    assert manifest.parameters == {"nlist": 7, "nprobe": 7}
    assert manifest.encoder == WordEncoder().record
    assert {record.name for record in manifest.files} == set(contents(tmp_path / "index")) - {"manifest.json"}
    assert {"agent-r1", "numpy", "faiss-cpu"} <= set(manifest.versions)


def test_repeated_passages_are_kept_once(tmp_path: Path) -> None:
    source = CorpusSource("twice", lambda: (*PASSAGES, *PASSAGES))
    build(tmp_path / "twice", "flat", source=source)
    build(tmp_path / "once", "flat")
    twice, once = read_manifest(tmp_path / "twice"), read_manifest(tmp_path / "once")
    assert (twice.passages, twice.corpus_sha256) == (once.passages, once.corpus_sha256)


def test_vectors_of_a_flat_index_are_taken_over(tmp_path: Path) -> None:
    build(tmp_path / "flat", "flat")
    build(tmp_path / "ivf", "ivf")
    settings = BuildSettings("ivf", vectors_from=tmp_path / "flat", **PIECES)
    build_index(SOURCE, tmp_path / "taken", settings)
    assert contents(tmp_path / "taken") == contents(tmp_path / "ivf")
    other = CorpusSource("other", lambda: PASSAGES[1:])
    with pytest.raises(ConfigError, match="its vectors belong to another corpus"):
        build_index(other, tmp_path / "other", settings)
    with pytest.raises(ConfigError, match="taken from a flat index"):
        build_index(SOURCE, tmp_path / "new", BuildSettings("hnsw", vectors_from=tmp_path / "ivf"))


def test_a_finished_index_is_not_built_over(tmp_path: Path) -> None:
    build(tmp_path / "index", "bm25")
    before = contents(tmp_path / "index")
    with pytest.raises(ConfigError, match="a finished index is there already"):
        build(tmp_path / "index", "bm25")
    assert contents(tmp_path / "index") == before


def test_two_builds_in_one_folder_do_not_mix(tmp_path: Path) -> None:
    def progress(stage: str, done: int, total: int | None) -> None:
        if done == 70:
            with pytest.raises(ConfigError, match="another build is running there"):
                build(tmp_path / "index", "bm25")

    build_index(SOURCE, tmp_path / "index", BuildSettings("bm25", **PIECES), progress=progress)
    build(tmp_path / "alone", "bm25")
    assert contents(tmp_path / "index") == contents(tmp_path / "alone")


def test_a_corpus_that_changed_during_the_interruption_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "corpus.jsonl"
    path.write_text('{"title": "A", "text": "b"}\n' * 3, encoding="utf-8")
    with pytest.raises(KilledError):
        build(tmp_path / "index", "bm25", 1, file_source(path))
    path.write_text('{"title": "A", "text": "c"}\n' * 4, encoding="utf-8")
    with pytest.raises(ConfigError, match="other settings is in the way: signature was"):
        build(tmp_path / "index", "bm25", source=file_source(path))


def test_a_vector_that_is_not_finite_stops_the_build_by_the_title(tmp_path: Path) -> None:
    source = CorpusSource("poisoned", lambda: (*PASSAGES, Passage("Bad title", "poison")))
    with pytest.raises(DataError, match="not finite for 'Bad title'"):
        build_index(source, tmp_path / "index", BuildSettings("flat"), WordEncoder(broken_word="poison"))


def test_the_corpus_is_streamed(tmp_path: Path) -> None:
    ahead = []

    def passages() -> Iterable[Passage]:
        for number in range(1000):
            ahead.append(number)
            yield Passage(str(number), "x")

    def progress(stage: str, done: int, total: int | None) -> None:
        if stage == "read passages" and total is None:
            assert len(ahead) <= done + 70

    source = CorpusSource("streamed", passages)
    build_index(source, tmp_path / "index", BuildSettings("bm25", chunk_passages=70), progress=progress)
    assert len(ahead) == 1000


@pytest.mark.parametrize(
    ("settings", "encoder", "message"),
    [
        ({"kind": "lsh"}, None, "kind is one of 'bm25', 'flat', 'ivf', 'ivfpq', 'hnsw'"),
        ({"kind": "flat"}, None, "the kind 'flat' needs an encoder"),
        ({"kind": "bm25"}, WordEncoder(), "bm25 takes no encoder"),
        ({"kind": "bm25", "parameters": {"k2": 1}}, None, "bm25 has no parameter 'k2'; it has k1 and b"),
        ({"kind": "ivf", "parameters": {"m": 4}}, WordEncoder(), "ivf has no parameter 'm'; it has nlist, nprobe"),
        ({"kind": "ivf", "parameters": {"nlist": 301}}, WordEncoder(), "at most one cell a passage"),
        ({"kind": "ivf", "parameters": {"nlist": 2.5}}, WordEncoder(), "nlist: expected a whole number, got 2.5"),
        ({"kind": "hnsw", "parameters": {"m": 0}}, WordEncoder(), "m: expected at least 1, got 0"),
        ({"kind": "ivfpq", "parameters": {"pq_m": 5}}, WordEncoder(), "divisor of the vectors' dimension 16, got 5"),
    ],
)
def test_wrong_settings_say_what_is_allowed(
    settings: dict[str, object], encoder: WordEncoder | None, message: str, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match=message):
        build_index(SOURCE, tmp_path / "index", BuildSettings(**settings), encoder)  # type: ignore[arg-type]


def test_an_empty_corpus_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="empty: the corpus has no passages"):
        build_index(CorpusSource("empty", lambda: ()), tmp_path / "index", BuildSettings("bm25"))
    with pytest.raises(DataError, match=r"no-such.jsonl: expected a file of passages"):
        file_source(tmp_path / "no-such.jsonl")


def test_ivfpq_needs_passages_to_learn_from(tmp_path: Path) -> None:
    source = CorpusSource("small", lambda: PASSAGES[:255])
    with pytest.raises(ConfigError, match="ivfpq needs 256 passages to learn its codes, the corpus has 255"):
        build_index(source, tmp_path / "index", BuildSettings("ivfpq"), WordEncoder())


@pytest.mark.parametrize("kind", KINDS)
def test_building_and_searching_are_silent(kind: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    build(tmp_path / "index", kind)
    load_index(tmp_path / "index", None if kind == "bm25" else WordEncoder()).search(QUERIES, 3)
    assert capfd.readouterr() == ("", "")
