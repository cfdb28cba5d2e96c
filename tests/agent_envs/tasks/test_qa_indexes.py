"""Question answering over an index folder: the option ``index`` of the environments."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import pytest

import agent_envs  # noqa: F401 - registers the ids
from agent_envs.errors import ConfigError
from agent_envs.retrieval import corpus_of
from agent_envs.retrieval.building import BuildSettings, CorpusSource, build_index

ENV = "AgentR1/HotpotQA-v0"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A BM25 index over the paragraphs of the embedded test questions."""
    env: Any = gym.make(ENV, split="mini/test", level="turn")
    task = env.unwrapped.core.task
    passages = corpus_of(task.item(index) for index in range(len(task)))
    path = tmp_path_factory.mktemp("indexes") / "bm25"
    build_index(CorpusSource("mini/test", lambda: passages), path, BuildSettings("bm25"))
    return str(path)


def played(**options: Any) -> list[str]:
    env: Any = gym.make(ENV, split="mini/test", level="turn", **options)
    observations = [env.reset(seed=3)[0]]
    core = env.unwrapped.core
    for turn in core.task.oracle(core.item):
        observation, reward, *_ = env.step(core.write_turn(turn))
        observations.append(f"{observation} {reward}")
    return observations


def test_an_index_folder_plays_as_the_same_passages_in_memory(folder: str) -> None:
    assert played(index=folder) == played()
    assert played(index=folder)[-1].endswith(" 1.0")


def test_environments_of_one_index_share_it(folder: str) -> None:
    first, second = (gym.make(ENV, index=folder, level="turn") for _ in range(2))
    assert first.unwrapped.core.tools == second.unwrapped.core.tools  # type: ignore[attr-defined]


def test_a_bm25_index_takes_no_encoder(folder: str) -> None:
    with pytest.raises(ConfigError, match=r"belongs to dense index folders, and .* has none"):
        gym.make(ENV, index=folder, encoder="some/model")
