"""Tests of rollouts on the project's own environment, with a scripted policy and with a tiny model."""

from __future__ import annotations

import functools
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from transformers import PreTrainedModel

import agent_envs  # noqa: F401 - registers the environments
from agent_envs.types import Episode
from agent_trainer.batch import make_rows
from agent_trainer.rollout import EpisodeSpec, RolloutEngine
from agent_trainer.sampler.base import SamplingParams
from agent_trainer.sampler.hf import HFSampler
from tests.agent_trainer.sampler.tiny_models import tiny_model
from tests.agent_trainer.scripted import OracleSampler

OPTIONS: dict[str, Any] = {"max_context": 1536, "max_turn_tokens": 24, "max_turns": 4, "max_observation_tokens": 128}


def make(**options: Any) -> gym.Env[Any, Any]:
    return gym.make("AgentR1/HotpotQA-v0", **(OPTIONS | options))


def groups(count: int, size: int) -> list[EpisodeSpec]:
    ids = make().unwrapped.core.task.task_ids()  # type: ignore[attr-defined]
    return [
        EpisodeSpec(ids[group], group, sampling_seed=7 * group + k, group=group)
        for group in range(count)
        for k in range(size)
    ]


def favour(model: PreTrainedModel, token: int, by: float) -> None:
    """Adds a constant to a token's logit."""
    head = torch.nn.Linear(*reversed(model.lm_head.weight.shape))
    head.weight = model.lm_head.weight
    with torch.no_grad():
        head.bias.zero_()[token] = by
    model.lm_head = head


def play(in_flight: int, threads: int, specs: list[EpisodeSpec], **options: Any) -> tuple[HFSampler, list[Episode]]:
    model = tiny_model("qwen3", max_positions=1536, vocab_size=259)
    favour(model, token=258, by=5.0)  # the end of a turn, which a random model would hardly ever write
    sampler = HFSampler.for_environment(model, SamplingParams(), make().unwrapped.core)  # type: ignore[attr-defined]
    rollouts = RolloutEngine(functools.partial(make, **options), sampler, in_flight, threads).run(specs)
    assert not any(rollout.failed for rollout in rollouts)
    return sampler, [rollout.episode for rollout in rollouts if rollout.episode is not None]


def test_a_scripted_policy_answers_every_question_through_real_searches() -> None:
    engine = RolloutEngine(lambda: gym.make("AgentR1/HotpotQA-v0"), OracleSampler(make().unwrapped.core), 8, 4)  # type: ignore[attr-defined]
    for rollout in engine.run(groups(12, 2)):
        assert rollout.episode is not None
        assert rollout.episode.metrics["em"] == rollout.episode.metrics["support_recall"] == 1.0


def test_the_samplers_logprobs_are_the_learners_and_each_token_is_prefilled_once() -> None:
    specs = groups(3, 3)
    sampler, episodes = play(in_flight=5, threads=3, specs=specs)
    fed = 0
    for spec, episode in zip(specs, episodes, strict=True):
        assert (episode.task_id, episode.seed) == (spec.task_id, spec.env_seed)
        ids = torch.from_numpy(episode.tokens.astype(np.int64))
        with torch.no_grad():
            logits = sampler.model(input_ids=ids[None]).logits[0, :-1, :259]
        plain = torch.log_softmax(logits, dim=-1).gather(-1, ids[1:, None])[:, 0].numpy()
        mask = episode.action_mask[1:]
        np.testing.assert_allclose(plain[mask], episode.sampler_logprobs[1:][mask], atol=1e-5)
        # The prompt once; then each reply, with the one token of the turn that nothing had followed before.
        fed += episode.segments[0].prompt_length + sum(t.feedback_stop - t.stop + 1 for t in episode.turns[:-1])
    assert sum(len(episode.turns) == 4 for episode in episodes) > 4
    assert sampler.counts.prefilled_tokens == fed
    assert sampler.counts.sampled_tokens == sum(int(episode.action_mask.sum()) for episode in episodes)
    assert not sampler.held_keys


@pytest.mark.parametrize(("in_flight", "threads"), [(1, 1), (9, 4)])
def test_episodes_do_not_depend_on_how_many_are_in_flight(in_flight: int, threads: int) -> None:
    specs = groups(3, 3)
    _, reference = play(in_flight=4, threads=2, specs=specs)
    _, episodes = play(in_flight, threads, specs)
    for episode, expected in zip(episodes, reference, strict=True):
        np.testing.assert_array_equal(episode.tokens, expected.tokens)
        assert episode.turns == expected.turns
        assert episode.metrics == expected.metrics


@pytest.mark.parametrize("rule", ["window", "summary", "rebuild"])
def test_in_every_segment_the_samplers_logprobs_are_the_learners_and_each_token_is_trained_once(rule: str) -> None:
    specs = groups(2, 3)
    sampler, episodes = play(4, 2, specs, context_rule=rule, context_turns=1)
    assert sum(len(episode.segments) > 2 for episode in episodes) > 2
    for episode in episodes:
        for segment in episode.segments:
            part = slice(segment.start, segment.stop)
            ids = torch.from_numpy(episode.tokens[part].astype(np.int64))
            with torch.no_grad():
                logits = sampler.model(input_ids=ids[None]).logits[0, :-1, :259]
            plain = torch.log_softmax(logits, dim=-1).gather(-1, ids[1:, None])[:, 0].numpy()
            mask = episode.action_mask[part][1:]
            np.testing.assert_allclose(plain[mask], episode.sampler_logprobs[part][1:][mask], atol=1e-5)
    rows = make_rows(episodes, range(len(episodes)), [spec.group for spec in specs])
    assert len(rows) == sum(len(episode.segments) for episode in episodes)
    sampled = [episode.tokens[episode.action_mask] for episode in episodes]
    assert rows.completion_ids[rows.action_mask].tolist() == np.concatenate(sampled).tolist()
    assert sampler.counts.sampled_tokens == int(rows.action_mask.sum())
    assert not sampler.held_keys
