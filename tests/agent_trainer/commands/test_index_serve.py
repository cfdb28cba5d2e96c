"""``agentr1 index serve``: an index folder, served to environments over HTTP."""

from __future__ import annotations

import http.client
import json
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import gymnasium as gym
import pytest
from typer.testing import CliRunner

import agent_envs  # noqa: F401 - registers the ids
from agent_envs.errors import DataError
from agent_envs.retrieval.client import ClientOptions, HttpRetriever
from agent_envs.retrieval.index import load_index
from agent_envs.retrieval.manifest import read_manifest
from agent_trainer.cli import app

RUNNER = CliRunner(env={"COLUMNS": "160", "TERM": "dumb"})
SERVE = "from agent_trainer.cli import main; main()"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("made") / "index"
    RUNNER.invoke(app, ["index", "build", "AgentR1/HotpotQA-v0", "--out", str(made)], catch_exceptions=False)
    return made


@pytest.fixture(scope="module")
def url(folder: Path) -> Iterator[str]:
    command = [sys.executable, "-c", SERVE, "index", "serve", str(folder), "--port", "0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        found = re.search(r"http://127\.0\.0\.1:\d+", process.stdout.readline())
        assert found is not None
        yield found[0]
        process.send_signal(signal.SIGTERM)
        assert process.wait(10.0) in (0, -signal.SIGTERM)
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def test_what_is_served_is_what_the_folder_finds(folder: Path, url: str) -> None:
    queries = ["river", "a film by its director", "nothing-of-the-kind"]
    with HttpRetriever(url, ClientOptions(retries=100, backoff_s=0.05)) as client:
        assert client.search(queries, 5) == load_index(folder).search(queries, 5)


def test_an_environment_searches_at_the_address(folder: Path, url: str) -> None:
    def oracle(**options: str) -> tuple[list[str], float]:
        env = gym.make("AgentR1/HotpotQA-v0", level="turn", **options)
        env.reset(seed=3)
        core = env.unwrapped.core  # type: ignore[attr-defined]
        texts, total = [], 0.0
        for turn in core.task.oracle(core.item):
            text, reward, *_ = env.step(core.write_turn(turn))
            texts.append(text)
            total += float(reward)
        env.close()
        return texts, total

    assert oracle(index=url) == oracle(index=str(folder)) == oracle()
    assert oracle(index=url)[1] == 1.0


def test_the_server_tells_the_corpus_of_the_manifest(folder: Path, url: str) -> None:
    connection = http.client.HTTPConnection(url.removeprefix("http://"), timeout=5.0)
    connection.request("GET", "/health")
    health = json.loads(connection.getresponse().read())
    connection.close()
    manifest = read_manifest(folder)
    assert (health["kind"], health["count"], health["corpus_hash"]) == (
        "bm25",
        manifest.passages,
        manifest.corpus_sha256,
    )


def test_a_folder_that_is_no_index_is_one_error(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="expected an index folder"):
        RUNNER.invoke(app, ["index", "serve", str(tmp_path), "--port", "0"], catch_exceptions=False)
