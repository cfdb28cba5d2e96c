"""2WikiMultihopQA and MuSiQue as environments: the oracle, the defaults, the options, and paragraphs of one title."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest

import agent_envs  # noqa: F401  (registers the ids)
from agent_envs.envs import TurnEnv
from agent_envs.errors import ConfigError, DataError
from agent_envs.options import describe_options
from agent_envs.tasks.catalogue import TASKS
from agent_envs.tasks.musique import MusiqueOptions
from agent_envs.tasks.two_wiki import TwoWikiOptions

TWO_WIKI, MUSIQUE = "AgentR1/2WikiMultihopQA-v0", "AgentR1/MuSiQue-v0"
REAL = {TWO_WIKI: ("2wikimultihopqa_dev.jsonl", 200), MUSIQUE: ("musique_ans_dev.jsonl", 100)}
ROOM = {"max_context": 65_536, "max_observation_tokens": 8_192}
IDS = pytest.mark.parametrize("env_id", [TWO_WIKI, MUSIQUE])


def make(env_id: str, **options: Any) -> TurnEnv[Any]:
    env = gym.make(env_id, level="turn", **options).unwrapped
    assert isinstance(env, TurnEnv)
    return env


def play_oracle(env: TurnEnv[Any], task_id: str) -> tuple[float, dict[str, Any]]:
    """The return and the last info."""
    env.reset(options={"task_id": task_id})
    total, info = 0.0, {}
    for turn in env.core.task.oracle(env.core.item):
        _, reward, _, _, info = env.step(env.core.write_turn(turn))
        total += reward
    return total, info


@IDS
@pytest.mark.parametrize("split", ["mini/train", "mini/validation", "mini/test"])
def test_the_oracle_answers_the_embedded_questions(env_id: str, split: str) -> None:
    env = make(env_id, split=split)
    for task_id in env.task.task_ids()[::8]:
        total, info = play_oracle(env, task_id)
        assert (total, info["reason"], info["metrics"]["em"]) == (1.0, "answered", 1.0)
        assert info["metrics"]["support_recall"] == 1.0


@IDS
def test_the_oracle_answers_every_real_question(real_samples: Path, env_id: str) -> None:
    name, count = REAL[env_id]
    env = make(env_id, dataset=str(real_samples / name), **ROOM)
    assert len(env.task) == count
    recalls = []
    for task_id in env.task.task_ids():
        total, info = play_oracle(env, task_id)
        assert (total, info["reason"], info["metrics"]["em"]) == (1.0, "answered", 1.0)
        recalls.append(info["metrics"]["support_recall"])
    assert sum(recalls) / count > 0.97


def test_four_hops_fit_into_musiques_budget() -> None:
    env = make(MUSIQUE)
    assert env.core.budgets.max_turns == 8
    assert make(MUSIQUE, max_turns=3).core.budgets.max_turns == 3


def test_a_paragraph_of_the_same_title_is_not_the_gold_one(tmp_path: Path) -> None:
    paragraphs = [
        {"idx": 0, "title": "Ashes", "paragraph_text": "A lake in the north, deep and cold.", "is_supporting": False},
        {"idx": 1, "title": "Ashes", "paragraph_text": "A novel by Ada Roe.", "is_supporting": True},
    ]
    steps = [{"question": "Ashes >> author", "answer": "Ada Roe", "paragraph_support_idx": 1}]
    row = {"id": "1", "paragraphs": paragraphs, "question": "Who wrote Ashes?", "question_decomposition": steps}
    path = tmp_path / "set.jsonl"
    path.write_text(json.dumps(row | {"answer": "Ada Roe", "answer_aliases": ["A. Roe"]}), encoding="utf-8")
    env = make(MUSIQUE, dataset=str(path), top_k=1)
    assert recall_after(env, "lake deep cold") == 0.0
    assert recall_after(env, "novel") == 1.0
    corpus = tmp_path / "corpus.jsonl"
    corpus.write_text(json.dumps({"title": "Ashes", "text": "Ashes is a novel."}), encoding="utf-8")
    assert recall_after(make(MUSIQUE, dataset=str(path), corpus=str(corpus)), "novel") == 1.0


def recall_after(env: TurnEnv[Any], query: str) -> float:
    env.reset(seed=0)
    call = {"name": "search", "arguments": {"query": query}}
    env.step(f"<tool_call>{json.dumps(call)}</tool_call>")
    info = env.step("<answer>a. roe</answer>")[4]
    assert info["metrics"]["em"] == 1.0
    return float(info["metrics"]["support_recall"])


def test_aliases_count_as_answers(real_samples: Path, tmp_path: Path) -> None:
    aliases = tmp_path / "id_aliases.json"
    aliases.write_text(json.dumps({"Q_id": "Q12560", "aliases": ["Sublime State"], "demonyms": ["Ottoman"]}))
    dataset = str(real_samples / REAL[TWO_WIKI][0])
    for given, em in (({"aliases": str(aliases)}, 1.0), ({}, 0.0)):
        env = make(TWO_WIKI, dataset=dataset, **ROOM, **given)
        env.reset(options={"task_id": "c51148bc0bdb11eba7f7acde48001122"})
        assert env.step("<answer>the sublime state</answer>")[4]["metrics"]["em"] == em


def test_environments_of_the_same_data_share_their_questions() -> None:
    assert make(MUSIQUE, reward="f1").task.item(0) is make(MUSIQUE, top_k=2).task.item(0)


@pytest.mark.parametrize(
    ("env_id", "options", "complaint"),
    [
        (TWO_WIKI, {"aliases": "id_aliases.json"}, "aliases='id_aliases.json' belongs to real data: give dataset too"),
        (TWO_WIKI, {"setting": "fullwiki"}, "no option 'setting'; it takes aliases, "),
        (TWO_WIKI, {"dataset": "xanhho/2WikiMultihopQA"}, 'a set on the hub: say which split, such as split="val'),
        (MUSIQUE, {"unanswerable": "keep"}, "unanswerable is one of 'skip', 'error', not 'keep'"),
        (MUSIQUE, {"split": "dev"}, "split .of the embedded world. is one of 'train', 'validation', 'test', not 'dev'"),
        (MUSIQUE, {"top_k": 0}, "top_k is a whole number >= 1, not 0"),
    ],
)
def test_bad_options_say_what_is_allowed(env_id: str, options: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        gym.make(env_id, **options)


def test_a_missing_file_is_a_data_error() -> None:
    with pytest.raises(DataError, match=r"absent\.jsonl: expected a JSON file"):
        gym.make(MUSIQUE, dataset="absent.jsonl")


@pytest.mark.parametrize("kind", [TwoWikiOptions, MusiqueOptions])
def test_every_option_is_explained(kind: type[Any]) -> None:
    assert all(option.help for option in describe_options(kind))


@IDS
def test_the_id_is_in_the_catalogue_with_a_line_on_it(env_id: str) -> None:
    (entry,) = [TASKS.get(name) for name in TASKS if TASKS.get(name).env_id == env_id]
    assert "search tool" in entry.summary
