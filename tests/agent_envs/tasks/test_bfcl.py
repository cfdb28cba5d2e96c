from __future__ import annotations

import copy
import importlib.util
from collections.abc import Sequence
from typing import Any

import gymnasium as gym
import pytest

if importlib.util.find_spec("bfcl_eval") is None:
    pytest.skip("needs bfcl-eval, which make test installs: pip install --no-deps bfcl-eval", allow_module_level=True)

from agent_envs.bfcl.records import CATEGORIES
from agent_envs.envs import TurnEnv
from agent_envs.errors import ConfigError
from agent_envs.formats import FORMATS
from agent_envs.tasks.base import OracleTurn
from agent_envs.tasks.bfcl import LAST_WORDS, MAX_STEPS
from agent_envs.types import Episode, EventKind, StopReason, ToolCall

FILES = "multi_turn_base_0"  # four turns of the user: 3, 2, 1 and 4 calls
DONE = OracleTurn(text=LAST_WORDS)
LOOK = OracleTurn(calls=(ToolCall("pwd"),))


def make(category: str, **options: Any) -> TurnEnv:
    env = gym.make("AgentR1/BFCL-v0", level="turn", category=category, **options).unwrapped
    assert isinstance(env, TurnEnv)
    return env


def play(env: TurnEnv, task_id: str, script: Sequence[OracleTurn] | None = None) -> Episode:
    """The episode of these turns; the oracle's by default."""
    core = env.core
    env.reset(options={"task_id": task_id})
    for turn in core.task.oracle(core.item) if script is None else script:
        core.feed(core.encode_turn(core.write_turn(turn)))
    return env.episode


def oracle(env: TurnEnv, task_id: str) -> list[OracleTurn]:
    return list(env.task.oracle(env.task.item(env.task.index_of(task_id))))


def played_wrong(env: TurnEnv, every: int) -> list[str]:
    return [task_id for task_id in env.task.task_ids()[::every] if play(env, task_id).metrics["accuracy"] != 1.0]


@pytest.mark.parametrize("category", CATEGORIES)
def test_the_oracle_is_right_in_a_sample(category: str) -> None:
    assert played_wrong(make(category), every=10) == []


@pytest.mark.slow
@pytest.mark.parametrize("category", CATEGORIES)
def test_the_oracle_is_right_in_every_item(category: str) -> None:
    assert played_wrong(make(category), every=1) == []


@pytest.mark.parametrize("tool_format", sorted(FORMATS))
def test_every_format_that_can_call_these_tools_can_play(tool_format: str) -> None:
    played = 0
    for category in ("parallel", "multi_turn_base"):
        try:
            env = make(category, tool_format=tool_format)
        except ConfigError as error:
            assert "does not fit" in str(error)
            continue
        assert played_wrong(env, every=50) == []
        played += 1
    assert played or tool_format != "hermes"


def test_one_turn_is_all_of_a_single_turn_test() -> None:
    env = make("parallel")
    episode = play(env, "parallel_0", [OracleTurn(text="I would rather not.")])
    assert (episode.reason, episode.total_reward) == (StopReason.ANSWERED, 0.0)
    assert episode.metrics["error_count"] == 1.0

    episode = play(env, "parallel_0")
    assert len(episode.turns[0].calls) == 2
    assert episode.turns[0].results == ()
    assert episode.metrics["tool_calls"] == 2.0


@pytest.mark.parametrize(
    ("turn", "error"),
    [
        (OracleTurn(calls=(ToolCall("calculate_triangle_area", {"base": 10, "height": 6}),)), "error_arguments"),
        (OracleTurn(calls=(ToolCall("calculate_area", {"base": 10, "height": 5}),)), "error_function"),
        (OracleTurn(text="<tool_call>{broken</tool_call>"), "error_unreadable"),
        (OracleTurn(answer="25"), "error_count"),
    ],
)
def test_what_is_wrong_is_named(turn: OracleTurn, error: str) -> None:
    metrics = play(make("simple"), "simple_python_0", [turn]).metrics
    assert {name for name, value in metrics.items() if name.startswith("error_") and value} == {error}
    assert metrics["accuracy"] == metrics["reward"] == 0.0


def test_the_user_goes_on_after_plain_words_and_the_last_words_end_it() -> None:
    env = make("multi_turn_base")
    _, info = env.reset(options={"task_id": FILES})
    core = env.core
    said = [info["messages"][-1]["content"]]
    reasons = []
    for turn in core.task.oracle(core.item):
        _, _, terminated, _, info = env.step(core.write_turn(turn))
        reasons.append(terminated)
        if turn == DONE and not terminated:
            assert [message["role"] for message in info["messages"]] == ["user"]
            said.append(info["messages"][0]["content"])
    assert said == list(core.item.user_turns)
    assert reasons == [False] * (len(reasons) - 1) + [True]
    assert [event.kind for event in env.episode.events].count(EventKind.MESSAGE) == 4


def test_an_answer_in_the_formats_form_counts_as_plain_words() -> None:
    env = make("multi_turn_base")
    script = [OracleTurn(answer="finished") if turn == DONE else turn for turn in oracle(env, FILES)]
    assert play(env, FILES, script).metrics["accuracy"] == 1.0


def test_malformed_and_unknown_calls_come_back_and_do_not_count_against_the_state() -> None:
    env = make("multi_turn_base")
    broken = OracleTurn(text="<tool_call>{broken</tool_call>")
    unknown = OracleTurn(calls=(ToolCall("open", {"file": "x"}),))
    episode = play(env, FILES, [broken, unknown, *oracle(env, FILES)])
    assert episode.metrics["accuracy"] == 1.0
    assert episode.metrics["malformed_calls"] == 2.0
    assert "there is no tool named 'open'" in episode.turns[1].results[0].content


def test_one_step_too_many_for_a_turn_of_the_user_ends_the_episode() -> None:
    env = make("multi_turn_base")
    script = oracle(env, FILES)
    within = [*[LOOK] * (MAX_STEPS - 3), *script]  # the first turn of the user needs 3 calls
    assert play(env, FILES, within).metrics["accuracy"] == 1.0

    episode = play(env, FILES, [LOOK] * (MAX_STEPS + 1))
    assert (episode.reason, len(episode.turns)) == (StopReason.ANSWERED, MAX_STEPS + 1)
    assert episode.metrics["error_unfinished"] == 1.0


def test_a_conversation_cut_short_is_wrong() -> None:
    env = make("multi_turn_base", max_turns=5)
    episode = play(env, FILES, oracle(env, FILES)[:5])
    assert episode.reason is StopReason.MAX_TURNS
    assert episode.metrics["error_unfinished"] == 1.0
    assert episode.total_reward == 0.0


def test_progress_is_the_share_of_the_users_turns_up_to_the_first_wrong_one() -> None:
    env = make("multi_turn_base", reward="progress")
    right = oracle(env, FILES)
    ends = [index for index, turn in enumerate(right) if turn == DONE]
    paid = [turn.reward for turn in play(env, FILES).turns]
    assert paid == [0.25 if index in ends else 0.0 for index in range(len(right))]
    silent = [*right[: ends[1] + 1], DONE, *right[ends[2] + 1 :]]  # two turns right, no call in the third
    assert play(env, FILES, silent).total_reward == 0.5
    assert play(env, FILES, [DONE] * 4).total_reward == 0.0

    short = make("multi_turn_base", reward="progress", max_turns=ends[0] + 2)
    assert play(short, FILES, right[: ends[0] + 2]).total_reward == 0.25
    assert play(make("simple", reward="progress"), "simple_python_0").total_reward == 1.0


def test_rewards_are_composed_of_parts_that_are_logged() -> None:
    env = make("simple", reward="accuracy - 0.25*turns")
    metrics = play(env, "simple_python_0").metrics
    assert (metrics["reward"], metrics["reward/accuracy"], metrics["reward/turns"]) == (0.75, 1.0, -0.25)

    paper = make("multi_turn_base", reward="paper")
    broken = OracleTurn(text="<tool_call>{broken</tool_call>")
    assert play(paper, FILES).total_reward == 1.0
    assert play(paper, FILES, [broken, *oracle(paper, FILES)]).total_reward == -1.0
    assert play(paper, FILES, [DONE] * 4).total_reward == 0.0


def test_repeating_what_was_done_does_not_earn_more_progress() -> None:
    env = make("multi_turn_base", reward="progress")
    right = oracle(env, FILES)
    first = right[: right.index(DONE)]
    again = play(env, FILES, [*first, DONE, *first, DONE, *first, DONE, *first, DONE])
    assert again.total_reward == 0.25


def test_copies_of_an_episode_go_their_own_way() -> None:
    env = make("multi_turn_base")
    env.reset(options={"task_id": FILES})
    core, script = env.core, oracle(env, FILES)
    for turn in script[:2]:
        core.feed(core.encode_turn(core.write_turn(turn)))
    twin = copy.deepcopy(core)
    for turn in (OracleTurn(calls=(ToolCall("touch", {"file_name": "stray.txt"}),)), *script[2:]):
        twin.feed(twin.encode_turn(twin.write_turn(turn)))
    for turn in script[2:]:
        core.feed(core.encode_turn(core.write_turn(turn)))
    assert (core.metrics["accuracy"], twin.metrics["accuracy"]) == (1.0, 0.0)
    assert twin.metrics["error_state"] == 1.0


def test_the_prompt_asks_in_plain_words_and_can_be_replaced() -> None:
    env = make("multi_turn_base", system_prompt="Be brief.")
    _, info = env.reset(options={"task_id": FILES})
    assert [message["content"] for message in info["messages"]] == ["Be brief.", env.core.item.user_turns[0]]
    assert "<answer>" not in make("simple").task.system_prompt


def test_unknown_choices_are_refused_with_the_known_ones() -> None:
    with pytest.raises(ConfigError, match="'simple', 'multiple', 'parallel', 'multi_turn_base'"):
        make("java")
    with pytest.raises(ConfigError, match=r"unknown reward part .em.; known: accuracy, .*progress"):
        make("simple", reward="em")
    with pytest.raises(ConfigError, match="no test has the id"):
        make("simple").reset(options={"task_id": "parallel_0"})


def test_token_by_token_is_the_same_episode() -> None:
    env = gym.make("AgentR1/BFCL-v0", level="token", observation="delta", max_context=4096)
    env.reset(options={"task_id": "simple_python_3"})
    core = env.unwrapped.core  # type: ignore[attr-defined]
    (turn,) = core.task.oracle(core.item)
    rewards = [env.step(token)[1] for token in core.encode_turn(core.write_turn(turn))]
    assert sum(rewards) == rewards[-1] == 1.0
