"""Tests of evaluation: right numbers for policies whose scores are known, files that stay, errors that help."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest

import agent_envs  # noqa: F401 - registers the environments
from agent_envs.errors import ConfigError
from agent_envs.types import StopReason
from agent_trainer.evaluate import EvaluationSettings, choose, evaluate, summarise, write_summary
from agent_trainer.records import episode_from_json, read_jsonl
from agent_trainer.rollout import EpisodeSpec, Rollout, RolloutStats
from agent_trainer.sampler.base import SamplingParams
from tests.agent_trainer.sampler.tiny_models import tiny_model
from tests.agent_trainer.scripted import OracleSampler
from tests.agent_trainer.small_world import EchoEnv

HOTPOT = "AgentR1/HotpotQA-v0"
VALIDATION = {"split": "mini/validation"}
QUIET = EvaluationSettings(progress=False, max_in_flight=16, num_threads=4)


def core_of(**options: Any) -> Any:
    return gym.make(HOTPOT, **options).unwrapped.core


def test_a_policy_that_knows_every_answer_scores_one() -> None:
    result = evaluate(OracleSampler(core_of(**VALIDATION)), HOTPOT, VALIDATION, n=40, settings=QUIET)
    assert result.em.mean == result.f1.mean == 1.0
    assert result.em.low == pytest.approx(0.9124, abs=1e-4)
    assert result.metrics["tool_calls"].mean == result.metrics["turns"].mean - 1
    assert result.malformed_share.mean == result.truncated_share.mean == 0.0
    assert (result.questions, result.failed, result.stats.episodes) == (40, 0, 40)


def test_mistakes_are_counted_as_what_they_are() -> None:
    core = core_of(**VALIDATION, max_turns=3)
    chosen = [spec.task_id for spec in choose(core.task.task_ids(), 10, seed=0)]

    def err(task_id: str, turn: int, text: str) -> str:
        if task_id == chosen[0] and turn == 2:
            return "<answer>surely wrong</answer>"
        if task_id == chosen[1] and turn == 0:
            return "<tool_call>{broken</tool_call>"
        if task_id == chosen[2] and turn == 2:
            return "I would rather not say."
        return text

    result = evaluate(OracleSampler(core, err), HOTPOT, {**VALIDATION, "max_turns": 3}, n=10, settings=QUIET)
    assert result.em.mean == pytest.approx(0.8)
    assert result.truncated_share.mean == pytest.approx(0.1)
    assert result.malformed_share.mean == pytest.approx(1 / 20)
    assert result.metrics["answered"].mean == pytest.approx(0.9)


def test_each_question_is_one_line_that_can_be_read_back(tmp_path: Path) -> None:
    settings = dataclasses.replace(QUIET, records=tmp_path / "deep" / "questions.jsonl")
    result = evaluate(OracleSampler(core_of(**VALIDATION)), HOTPOT, VALIDATION, n=7, settings=settings)
    lines = list(read_jsonl(tmp_path / "deep" / "questions.jsonl"))
    assert len({line["task_id"] for line in lines}) == 7
    for line in lines:
        episode = episode_from_json(line)
        assert line["gold"] == line["answer"] == episode.answer
        assert line["question"].endswith(("?", "."))
        assert episode.reason is StopReason.ANSWERED
    write_summary(result, tmp_path / "more" / "summary.json")
    summary = json.loads((tmp_path / "more" / "summary.json").read_text())
    assert summary["estimates"]["em"][0] == 1.0
    assert summary["env_options"] == VALIDATION


def test_what_was_played_before_ctrl_c_is_in_the_file(tmp_path: Path) -> None:
    class Interrupted(OracleSampler):
        polls = 0

        def poll(self) -> Any:
            self.polls += 1
            if self.polls > 40:
                raise KeyboardInterrupt
            return super().poll()

    path = tmp_path / "questions.jsonl"
    settings = dataclasses.replace(QUIET, records=path, max_in_flight=2)
    with pytest.raises(KeyboardInterrupt):
        evaluate(Interrupted(core_of(**VALIDATION)), HOTPOT, VALIDATION, n=100, settings=settings)
    assert 10 <= len(list(read_jsonl(path))) < 100


def test_a_tiny_random_model_plays_with_the_byte_tokenizer() -> None:
    model = tiny_model(max_positions=1280, vocab_size=272)
    options = {**VALIDATION, "max_context": 1280, "max_turn_tokens": 16, "max_turns": 2}
    first = evaluate(model, HOTPOT, options, n=4, settings=QUIET)
    again = evaluate(model, HOTPOT, options, n=4, settings=QUIET)
    assert first.metrics == again.metrics
    assert first.em.mean == 0.0
    assert first.truncated_share.mean == 1.0
    assert first.stats.generated_tokens > 0
    sampled = dataclasses.replace(QUIET, sampling=SamplingParams(temperature=1.0))
    assert evaluate(model, HOTPOT, options, n=2, settings=sampled).questions == 2


def test_the_same_questions_every_time_and_fewer_are_some_of_more() -> None:
    ids = [f"q{index}" for index in range(50)]
    ten, twenty = choose(ids, 10, seed=0), choose(ids, 20, seed=0)
    assert ten == twenty[:10] == choose(list(reversed(ids)), 10, seed=0)
    assert [spec.task_id for spec in ten] != [spec.task_id for spec in choose(ids, 10, seed=1)]
    assert {spec.task_id for spec in choose(ids, None, seed=0)} == set(ids)
    assert len({spec.sampling_seed for spec in twenty}) == 20


@pytest.mark.parametrize("n", [0, -3, 10_000])
def test_a_number_of_questions_that_the_split_cannot_serve_is_refused(n: int) -> None:
    with pytest.raises(ConfigError, match="number of questions to play, 1 to the 600"):
        evaluate(OracleSampler(core_of(**VALIDATION)), HOTPOT, VALIDATION, n=n, settings=QUIET)


def test_failed_episodes_are_left_out_of_the_means_and_all_failed_is_an_error() -> None:
    env = EchoEnv(1)
    env.reset(options={"task_id": "a"})
    env.core._append([5, 2], action=True, turn=0, logprobs=[0, 0])
    env.core.num_turns = 0
    good = Rollout(EpisodeSpec("a", 0, 0, 0), env.episode)
    bad = Rollout(EpisodeSpec("b", 0, 0, 1), None, "OSError: gone")
    lost = Rollout(EpisodeSpec("c", 0, 0, 2), dataclasses.replace(env.episode, reason=StopReason.TOOL_FAILURE))
    result = summarise("Echo-v0", {}, [good, bad, lost], RolloutStats())
    assert (result.questions, result.failed) == (1, 2)
    with pytest.raises(RuntimeError, match="all 2 episodes failed; the first: OSError: gone"):
        summarise("Echo-v0", {}, [bad, lost], RolloutStats())
