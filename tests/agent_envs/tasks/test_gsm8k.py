"""GSM8K in live episodes: grading, tools, and an oracle that works every problem out."""

from __future__ import annotations

import copy
import json
import pickle
from pathlib import Path
from typing import Any

import pytest

from agent_envs.data.math_problems import MathProblem
from agent_envs.errors import ConfigError
from agent_envs.sandbox import missing_isolation
from agent_envs.types import StopReason
from tests.agent_envs.tasks.math_episodes import answer, call, make, play, play_oracle, reachable

ID = "AgentR1/GSM8K-v0"
GOLD = 48151623
ROW = {"question": "How many?", "answer": f"It is 2*4 = <<2*4=8>>8.\n#### {GOLD:,}"}

needs_isolation = pytest.mark.skipif(
    missing_isolation() is not None, reason=f"runs where Python can be isolated; missing here: {missing_isolation()}"
)


@pytest.fixture
def own(tmp_path: Path) -> str:
    path = tmp_path / "own.jsonl"
    path.write_text(json.dumps(ROW), encoding="utf-8")
    return str(path)


@pytest.mark.parametrize(
    ("text", "reward"),
    [
        (str(GOLD), 1.0),
        (f"${GOLD:,}.00", 1.0),
        (f"{GOLD} apples", 1.0),
        (str(GOLD + 1), 0.0),
        (f"{GOLD} or {GOLD + 1}", 0.0),
        ("I do not know.", 0.0),
        ("1e999999", 0.0),
        ("", -0.5),
    ],
)
def test_the_reward_is_the_grade_if_the_format_is_right(own: str, text: str, reward: float) -> None:
    episode = play(make(ID, dataset=own), "own/0", answer(make(ID, dataset=own), text))
    assert episode.reason is StopReason.ANSWERED
    assert episode.total_reward == reward
    assert episode.metrics["em"] == float(reward == 1.0)


def test_a_malformed_call_costs_half_and_a_format_without_answer_all(own: str) -> None:
    env = make(ID, dataset=own, max_turns=2)
    broken = '<tool_call>{"name": "calculator"}</tool_call>'
    assert play(env, "own/0", broken, answer(env, str(GOLD))).total_reward == -0.5
    assert play(env, "own/0", broken, "so many").total_reward == -1.0
    assert play(env, "own/0", "hm", "so many").total_reward == -0.5


def test_rewards_are_expressions_over_named_parts(own: str) -> None:
    env = make(ID, dataset=own, reward="numeric*format - 0.125*tool_calls")
    episode = play(env, "own/0", call(env, "calculator", expression="2*4"), answer(env, str(GOLD)))
    assert [turn.reward for turn in episode.turns] == [-0.125, 1.0]
    assert episode.metrics["reward/numeric*format"] == 1.0
    with pytest.raises(ConfigError, match="unknown reward part 'f1'"):
        make(ID, dataset=own, reward="f1")


def test_a_number_in_a_tools_text_is_no_answer(own: str) -> None:
    env = make(ID, dataset=own, max_turns=2)
    episode = play(env, "own/0", call(env, "calculator", expression=f"{GOLD}+0"), "That is it.")
    assert episode.turns[0].results[0].content == str(GOLD)
    assert episode.metrics["em"] == 0.0


@pytest.mark.parametrize("part", ["train", "validation", "test"])
def test_the_oracle_works_out_embedded_problems(part: str) -> None:
    env = make(ID, split=f"mini/{part}")
    for task_id in env.task.task_ids()[::25]:
        episode = play_oracle(env, task_id)
        assert (episode.total_reward, episode.metrics["em"]) == (1.0, 1.0)
        results = [result.content for turn in episode.turns for result in turn.results]
        assert results[-1] == env.core.item.answer  # the last step of the work is the answer


@pytest.mark.parametrize("name", ["gsm8k_train", "gsm8k_test"])
def test_the_oracle_works_out_real_samples(real_samples: Path, name: str) -> None:
    env = make(ID, dataset=str(real_samples / f"{name}.jsonl"))
    episodes = [play_oracle(env, task_id) for task_id in env.task.task_ids()[::4]]
    assert len(episodes) == 100
    assert {(episode.total_reward, episode.metrics["em"]) for episode in episodes} == {(1.0, 1.0)}
    assert sum(episode.metrics["tool_calls"] for episode in episodes) > 250


@pytest.mark.slow
def test_the_oracle_works_everything_out(real_samples: Path) -> None:
    sets: list[dict[str, Any]] = [{"split": part} for part in ("train", "validation", "test")]
    sets += [{"dataset": str(real_samples / name)} for name in ("gsm8k_train.jsonl", "gsm8k_test.jsonl")]
    scores = []
    for options in sets:
        env = make(ID, **options)
        episodes = [play_oracle(env, task_id) for task_id in env.task.task_ids()]
        scores += [(episode.total_reward, episode.metrics["em"]) for episode in episodes]
    assert (len(scores), set(scores)) == (3600, {(1.0, 1.0)})


@needs_isolation
@pytest.mark.parametrize(
    "options", [{"tools": "python"}, {"tools": "python", "session": True, "tool_format": "retool"}]
)
def test_python_does_the_same_work(options: dict[str, Any]) -> None:
    env = make(ID, **options)
    episode = play_oracle(env, "mini/train/0")
    assert episode.total_reward == 1.0
    assert episode.turns[0].results[0].content.split()[-1] == env.core.item.answer


@needs_isolation
def test_both_tools_can_be_had_at_once() -> None:
    env = make(ID, tools="calculator, python")
    env.reset(seed=0)
    assert [tool.name for tool in env.core.tools] == ["calculator", "python"]
    assert "let the calculator or Python do" in env.task.system_prompt


def test_without_tools_nothing_speaks_of_tools() -> None:
    env = make(ID, tools="none")
    text, _ = env.reset(seed=0)
    assert "tool" not in text
    assert "tool" not in env.step("hm")[0]
    assert play_oracle(env, "mini/train/0").metrics["turns"] == 1.0


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"tools": "abacus"}, "tools is \"none\", or some of calculator, python with commas, not 'abacus'"),
        ({"tools": "calculator,calculator"}, "with commas, not 'calculator,calculator'"),
        ({"split": "dev"}, "mini/train, mini/validation, mini/test, not 'dev'"),
        ({"dataset": "openai/gsm8k"}, 'a set on the hub: say which split, such as split="test"'),
        ({"timeout_s": 0}, "a number of seconds above 0, not 0"),
        ({"isolation": "never"}, "isolation is one of 'require', 'best-effort', not 'never'"),
        ({"tool_format": "retool"}, "choose another tool_format"),
    ],
)
def test_a_wrong_option_is_refused_in_words(options: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        make(ID, **options)


def test_a_file_has_no_splits(own: str) -> None:
    with pytest.raises(ConfigError, match="has no splits"):
        make(ID, dataset=own, split="test")


@needs_isolation
@pytest.mark.parametrize("tools", ["calculator", "python", "calculator,python"])
def test_no_tool_can_get_at_the_gold_answer(own: str, tools: str) -> None:
    env = make(ID, dataset=own, tools=tools, session=True)
    text, info = env.reset(seed=0)
    for said in (text, json.dumps(info), json.dumps([tool.schema for tool in env.core.tools]), env.step("hm")[0]):
        assert str(GOLD) not in said.replace(",", "")

    def tells(one: object) -> bool:
        return isinstance(one, MathProblem) or (isinstance(one, str) and str(GOLD) in one.replace(",", ""))

    assert reachable(env.task, tells)  # the search finds it where it is
    assert not reachable(env.task.begin(env.core.item), tells)
    assert not reachable(env.core.tools, tells)


def test_environments_are_copied_and_pickled_with_their_episode() -> None:
    env = make(ID)
    env.reset(seed=4)
    env.step(call(env, "calculator", expression="2*3"))
    for twin in (copy.deepcopy(env), pickle.loads(pickle.dumps(env))):
        assert twin.episode.turns == env.episode.turns
        assert twin.step(answer(twin, env.core.item.answer))[1] == 1.0
