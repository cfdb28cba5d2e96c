"""A folder that holds a copy of a data set on the hub is taken where a hub name is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest

import agent_envs  # noqa: F401 - registers the ids
from agent_envs.data.hub import names_file
from agent_envs.errors import ConfigError
from tests.agent_envs.data.hub_copies import lay_out

SETS: dict[str, tuple[dict[str, Any], str]] = {
    "AgentR1/GSM8K-v0": ({"question": "Half of 48?", "answer": "48/2 = <<48/2=24>>24\n#### 24"}, "main"),
    "AgentR1/PythonMath-v0": ({"problem": "$1+1$?", "answer": "2"}, "default"),
    "AgentR1/HotpotQA-v0": (
        {
            "id": "a",
            "question": "Where?",
            "answer": "here",
            "type": "bridge",
            "level": "easy",
            "supporting_facts": {"title": ["A"], "sent_id": [0]},
            "context": {"title": ["A"], "sentences": [["It is here."]]},
        },
        "distractor",
    ),
}


@pytest.mark.parametrize("env_id", SETS)
def test_an_environment_plays_the_split_of_a_folder(
    env_id: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    row, config = SETS[env_id]
    folder = str(lay_out(tmp_path, monkeypatch, [row], config))
    env = gym.make(env_id, level="turn", dataset=folder, split="validation")
    prompt, _ = env.reset(seed=0)
    assert len(env.unwrapped.task) == 1  # type: ignore[attr-defined]
    assert str(row.get("question", row.get("problem"))) in prompt
    with pytest.raises(ConfigError, match="is a folder, or a set on the hub: say which split"):
        gym.make(env_id, dataset=folder)


def test_what_names_a_file(tmp_path: Path) -> None:
    (tmp_path / "rows").write_text("{}")
    names = {str(tmp_path / "rows"): True, str(tmp_path): False, "me/set": False, "me/set.jsonl": True, "a/b/c": True}
    assert {name: names_file(name) for name in names} == names
