"""The Gymnasium faces: its own checks, vectors, specs, seeds, flags, and bad input."""

from __future__ import annotations

import copy
import json
import pickle
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.envs.registration import EnvSpec
from gymnasium.utils.env_checker import check_env
from hypothesis import given, settings
from hypothesis import strategies as st

import agent_envs
from agent_envs.envs import TurnEnv
from agent_envs.errors import ConfigError, DataError, EpisodeOverError, InvalidActionError, TokenizerError
from agent_envs.tokenizers import HuggingFaceTokenizer
from tests.agent_envs import driving
from tests.agent_envs.small_task import small_core
from tests.agent_envs.smollm2 import smollm2_tokenizer_folder

ID = "AgentR1/HotpotQA-v0"
SMALL = {"split": "mini/test", "max_context": 3000, "max_turn_tokens": 300}
LEVELS = ("token", "turn")


def make(**options: Any) -> gym.Env[Any, Any]:
    return gym.make(ID, **(SMALL | options))


def oracle_texts(env: gym.Env[Any, Any]) -> list[str]:
    core = env.unwrapped.core
    return [core.write_turn(turn) for turn in core.task.oracle(core.item)]


@pytest.mark.parametrize(("level", "observation"), [("token", "full"), ("token", "delta"), ("turn", "full")])
def test_gymnasiums_checker_passes(level: str, observation: str) -> None:
    env = make(level=level, observation=observation, render_mode="ansi")
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*is different from the unwrapped version.*")
        check_env(env, skip_render_check=False)
    check_env(env.unwrapped, skip_render_check=False)


def test_the_module_prefix_makes_the_id_known_in_a_fresh_process() -> None:
    code = f"import gymnasium as gym; print(gym.make('agent_envs:{ID}').unwrapped.task.task_ids()[0])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == gym.make(ID).unwrapped.task.task_ids()[0]


def test_a_spec_survives_json_and_makes_the_same_environment() -> None:
    env = make(level="turn", top_k=2, reward="f1")
    again = gym.make(EnvSpec.from_json(env.spec.to_json()))
    assert again.reset(seed=5) == env.reset(seed=5)
    assert again.unwrapped.core.budgets == env.unwrapped.core.budgets


@pytest.mark.parametrize("level", LEVELS)
def test_a_seed_gives_the_same_question_in_every_copy_and_process(level: str) -> None:
    env = make(level=level)
    task_ids = [env.reset(seed=seed)[1]["task_id"] for seed in range(12)]
    assert len(set(task_ids)) > 6
    assert [make(level=level).reset(seed=seed)[1]["task_id"] for seed in range(12)] == task_ids
    code = (
        "import gymnasium as gym, agent_envs, json\n"
        f"env = gym.make({ID!r}, **{SMALL | {'level': level}!r})\n"
        "print(json.dumps([env.reset(seed=seed)[1]['task_id'] for seed in range(12)]))"
    )
    for hash_seed in ("1", "2"):
        done = subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            check=True,
            env={"PYTHONHASHSEED": hash_seed, "PATH": "", "PYTHONPATH": str(Path(agent_envs.__file__).parent.parent)},
        )
        assert json.loads(done.stdout) == task_ids


def test_resets_without_a_seed_go_on_to_other_questions() -> None:
    env = make()
    env.reset(seed=1)
    assert len({env.reset()[1]["task_id"] for _ in range(10)}) > 5


@pytest.mark.parametrize("level", LEVELS)
def test_a_task_can_be_asked_for_by_its_id(level: str) -> None:
    env = make(level=level)
    wanted = env.unwrapped.task.task_ids()[17]
    assert env.reset(options={"task_id": wanted})[1]["task_id"] == wanted
    with pytest.raises(ConfigError, match="no question has the id 'nothing'"):
        env.reset(options={"task_id": "nothing"})
    with pytest.raises(ConfigError, match=r"no question has the id \['a list'\]"):
        env.reset(options={"task_id": ["a list"]})
    with pytest.raises(ConfigError, match="unknown reset options"):
        env.reset(options={"task": wanted})


def test_the_oracle_answers_every_embedded_question() -> None:
    env = make(level="turn", split="mini/validation")
    for task_id in env.unwrapped.task.task_ids():
        env.reset(options={"task_id": task_id})
        for text in oracle_texts(env):
            _, reward, terminated, _, info = env.step(text)
        assert (reward, terminated, info["metrics"]["em"], info["metrics"]["support_recall"]) == (1.0, True, 1.0, 1.0)


def test_the_oracle_answers_every_real_question(real_samples: Path) -> None:
    env = gym.make(ID, level="turn", dataset=str(real_samples / "hotpotqa_dev_distractor.jsonl"), max_context=20_000)
    task = env.unwrapped.task
    assert len(task) == 120
    for task_id in task.task_ids():
        env.reset(options={"task_id": task_id})
        for text in oracle_texts(env):
            _, _, _, _, info = env.step(text)
        assert (info["reason"], info["metrics"]["em"]) == ("answered", 1.0)


def trajectories(env: gym.vector.VectorEnv, stream: list[int], steps: int) -> list[Any]:
    observed: list[Any] = [env.reset(seed=[3, 4])[0]]
    for step in range(steps):
        actions = np.array([stream[step], stream[step + 7]])
        observation, reward, terminated, truncated, _ = env.step(actions)
        observed.append((copy.deepcopy(observation), reward.tolist(), terminated.tolist(), truncated.tolist()))
    env.close()
    return observed


def flat(observed: list[Any]) -> list[Any]:
    return [
        [value.tolist() if isinstance(value, np.ndarray) else value for value in part.values()]
        if isinstance(part, dict)
        else part
        for entry in observed
        for part in (entry if isinstance(entry, tuple) else (entry,))
    ]


def test_sync_and_async_vectors_give_the_trajectories_of_single_environments() -> None:
    options = SMALL | {"max_context": 2000, "max_turn_tokens": 60, "max_turns": 2}
    stream = driving.random_stream(make().unwrapped.core, seed=5, length=400)
    by_sync = trajectories(gym.make_vec(ID, 2, "sync", **options), stream, 150)
    by_async = trajectories(gym.make_vec(ID, 2, "async", **options), stream, 150)
    assert flat(by_sync) == flat(by_async)
    assert any(entry[2] != [False, False] or entry[3] != [False, False] for entry in by_sync[1:])
    single = gym.make(ID, **options)
    single.reset(seed=3)
    for step in range(30):
        observation, reward, *_ = single.step(stream[step])
        assert (observation["tokens"] == by_sync[step + 1][0]["tokens"][0]).all()
        assert reward == by_sync[step + 1][1][0]


def test_each_step_gives_fresh_objects() -> None:
    env = make(level="turn", max_turns=5)
    _, first = env.reset(seed=1)
    kept = copy.deepcopy(first)
    first["messages"].clear()
    assert env.reset(seed=1)[1] == kept
    *_, info = env.step('<tool_call>{"name": "search", "arguments": {"query": "a"}}</tool_call>')
    before = env.unwrapped.episode
    info["tool_calls"][0]["arguments"]["query"] = "changed"
    assert before.turns[0].calls[0].arguments["query"] == "a"
    assert env.unwrapped.episode.turns[0].calls[0].arguments["query"] == "a"


def test_info_is_plain_data_and_says_what_happened() -> None:
    env = make(level="turn", max_turns=2)
    env.reset(seed=1)
    *_, info = env.step('<tool_call>{"name": "search", "arguments": {"query": "river"}}</tool_call>')
    assert (info["event"], info["reason"], info["metrics"]) == ("call", "", {})
    assert info["tool_calls"][0]["name"] == "search"
    assert "asked_for_answer" in info["events"]
    *_, info = env.step("I give up")
    assert (info["event"], info["reason"], info["metrics"]["turns"]) == ("no_action", "max_turns", 2.0)
    assert json.loads(json.dumps(info, allow_nan=False)) == info


def test_no_gold_answer_is_in_the_prompt() -> None:
    env = make(level="turn")
    for task_id in env.unwrapped.task.task_ids()[:100]:
        text, info = env.reset(options={"task_id": task_id})
        item = env.unwrapped.core.item
        if item.answers[0] not in item.question and item.answers[0] not in ("yes", "no"):
            assert item.answers[0] not in text + json.dumps(info)


def test_stepping_after_the_end_raises_at_both_levels() -> None:
    for level, action in (("token", 65), ("turn", "x")):
        env = make(level=level, max_turns=1)
        with pytest.raises(EpisodeOverError, match="has not begun"):
            env.unwrapped.step(action)
        env.reset(seed=1)
        env.unwrapped.core.feed(env.unwrapped.core.encode_turn("<answer>x</answer>"))
        with pytest.raises(EpisodeOverError, match="is over"):
            env.step(action)


@pytest.mark.parametrize("action", [-1, 259, 1.5, "a", None])
def test_actions_outside_the_space_raise_at_the_token_level(action: Any) -> None:
    env = make()
    env.reset(seed=1)
    with pytest.raises(InvalidActionError):
        env.unwrapped.step(action)


@pytest.mark.parametrize("action", ["", [], [-1], [1.5], [[1], [1, 2]], [2**31], np.array(5), None, {"ids": [1]}])
def test_actions_outside_the_space_raise_at_the_turn_level(action: Any) -> None:
    env = make(level="turn")
    env.reset(seed=1)
    if isinstance(action, str):
        env.step(action)  # an empty text is a turn that only ends
        assert env.unwrapped.core.turns[0].text == ""
        return
    with pytest.raises(InvalidActionError):
        env.unwrapped.step(action)


def test_surplus_ids_are_an_error_and_surplus_text_is_noted() -> None:
    env = make(level="turn")
    env.reset(seed=1)
    ids = env.unwrapped.core.encode_turn("<answer>x</answer>")
    with pytest.raises(
        InvalidActionError, match=f"ends at id {len(ids) - 1} of the action, but {len(ids) + 2} ids came"
    ):
        env.step([*ids, 65, 66])
    assert not env.unwrapped.core.turns
    *_, info = env.step("<answer>x</answer> and so on")
    assert "text_dropped" in info["events"]
    assert info["metrics"]["format"] == 1.0


def test_text_and_ids_of_a_turn_are_the_same_action() -> None:
    text, ids = make(level="turn"), make(level="turn")
    assert text.reset(seed=2) == ids.reset(seed=2)
    for turn in oracle_texts(text):
        assert text.step(turn) == ids.step(ids.unwrapped.core.encode_turn(turn))
    assert driving.plain(text.unwrapped.episode) == driving.plain(ids.unwrapped.episode)


@settings(max_examples=10)
@given(stream_seed=st.integers(0, 1000))
def test_the_turn_level_plays_the_token_levels_episode_with_smollm2s_tokenizer(stream_seed: int) -> None:
    folder = str(smollm2_tokenizer_folder())
    by_token, by_turn = (make(level=level, tokenizer=folder, max_turns=4, max_turn_tokens=80) for level in LEVELS)
    assert isinstance(by_token.unwrapped.core.tokenizer, HuggingFaceTokenizer)
    by_token.reset(seed=stream_seed)
    by_turn.reset(seed=stream_seed)
    stream = driving.random_stream(by_token.unwrapped.core, stream_seed, 500)
    for token_id in stream:
        *_, terminated, truncated, _ = by_token.step(token_id)
        if terminated or truncated:
            break
    for turn in driving.turns_of(by_turn.unwrapped.core, stream):
        by_turn.step(turn)
    one, other = (driving.plain(env.unwrapped.episode) for env in (by_token, by_turn))
    assert one == other


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"maxturns": 3}, ConfigError, "has no option 'maxturns'; it takes .*Did you mean 'max_turns'"),
        ({"max_turns": "3"}, ConfigError, "'max_turns' is a whole number"),
        ({"dataset": 3}, ConfigError, "'dataset' is text"),
        ({"context_tokens": 100}, ConfigError, 'context_rule="append" never does; choose window'),
        ({"dataset": Path("no/such/file.json")}, DataError, "no/such/file.json"),
        ({"level": "word"}, ConfigError, "level is one of 'token', 'turn'"),
        ({"observation": "text"}, ConfigError, "observation is one of"),
        ({"level": "turn", "observation": "delta"}, ConfigError, 'belongs to level="token"'),
        ({"split": "mini/dev"}, ConfigError, "split .* is one of 'train', 'validation', 'test'"),
        ({"reward": "bleu"}, ConfigError, "unknown reward part 'bleu'; known: answer_format, .*em, f1"),
        ({"retriever": "tfidf"}, ConfigError, "unknown retriever 'tfidf'; known: bm25"),
        ({"index": "x", "corpus": "y.jsonl"}, ConfigError, "leave out corpus and retriever"),
        ({"index": "no/such/index"}, DataError, "no/such/index: expected an index folder"),
        ({"encoder": "x"}, ConfigError, "means nothing to retriever"),
        ({"tool_format": "xml"}, ConfigError, "unknown tool format 'xml'; known: .*hermes"),
        ({"top_k": 0}, ConfigError, "top_k is a whole number >= 1"),
        ({"setting": "open"}, ConfigError, "setting is one of"),
        ({"dataset": "no/such/file.json"}, DataError, "no/such/file.json"),
        ({"dataset": "hotpotqa/hotpot_qa"}, ConfigError, "say which split"),
        ({"dataset": __file__, "split": "validation"}, ConfigError, "has no splits"),
        ({"corpus": "no-such-corpus.jsonl"}, DataError, "no-such-corpus.jsonl"),
        ({"tokenizer": "no-such-folder/x"}, TokenizerError, "cannot load the tokenizer"),
        ({"max_context": 300, "max_turn_tokens": 400}, ConfigError, "leaves no room for a prompt"),
    ],
)
def test_bad_options_say_what_is_allowed(options: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        gym.make(ID, **({"split": "mini"} | options))


def test_a_prompt_that_does_not_fit_is_an_error_at_reset() -> None:
    with pytest.raises(ConfigError, match="raise max_context"):
        make(max_context=200, max_turn_tokens=50).reset(seed=1)


def test_environments_can_be_copied_and_pickled_mid_episode() -> None:
    env = make(level="turn").unwrapped
    env.reset(seed=1)
    env.step('<tool_call>{"name": "search", "arguments": {"query": "river"}}</tool_call>')
    twin = copy.deepcopy(env)
    assert twin.step("<answer>x</answer>")[1:3] == env.step("<answer>x</answer>")[1:3]
    assert pickle.loads(pickle.dumps(env.episode)).task_id == env.episode.task_id


def test_render_shows_who_wrote_what_and_no_control_characters() -> None:
    env = make(level="turn", render_mode="ansi")
    env.reset(seed=1)
    env.step("hello \x1b[2J\x07")
    text = env.render()
    assert "[policy, turn 1]" in text
    assert "\\x1b[2J\\x07" in text
    with pytest.raises(ConfigError, match="render_mode"):
        agent_envs.make_env("hotpotqa", render_mode="rgb_array")


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("rule", ["append", "window"])
@pytest.mark.parametrize("turns", [None, 0, 1, 2, 3])
def test_a_pickled_environment_goes_on_as_the_original_does(level: str, rule: str, turns: int | None) -> None:
    env = make(level=level, context_rule=rule, context_turns=1)

    def play(player: gym.Env[Any, Any], text: str) -> list[Any]:
        if level == "turn":
            return [player.step(text)]
        return [player.step(token_id) for token_id in player.unwrapped.core.encode_turn(text)]

    if turns is not None:
        env.reset(seed=5)
        for text in oracle_texts(env)[:turns]:
            play(env, text)
    twin = pickle.loads(pickle.dumps(env))
    if turns is None:
        assert str(env.reset(seed=9)) == str(twin.reset(seed=9))
    elif turns < 3:
        text = oracle_texts(env)[turns]
        assert str(play(env, text)) == str(play(twin, text))
    assert driving.plain(env.unwrapped.episode) == driving.plain(twin.unwrapped.episode)
    assert str(env.reset()) == str(twin.reset())


def test_an_environment_made_by_hand_says_why_it_cannot_be_pickled() -> None:
    core = small_core()
    with pytest.raises(TypeError, match="nothing says how to make it again"):
        pickle.dumps(TurnEnv(core))
