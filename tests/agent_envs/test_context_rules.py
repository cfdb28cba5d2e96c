"""Context rules: segments that are exact, each sampled token trained once, whatever rule and however driven."""

from __future__ import annotations

import functools
import itertools

import gymnasium as gym
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_envs.context_rules import RULES, ContextRecord, ContextRule, make_rule, rebuild, summarise
from agent_envs.episode import EpisodeCore
from agent_envs.errors import ConfigError
from agent_envs.tokenizers import ByteTokenizer, Tokenizer
from agent_envs.types import Episode, EventKind, StopReason
from tests.agent_envs import driving
from tests.agent_envs import small_tokenizers as small
from tests.agent_envs.small_task import SmallTask, lookup_tool, small_core

CALL = '<tool_call>\n{"name": "lookup", "arguments": {"number": 1}}\n</tool_call>'
DOCUMENTS = ("alpha <answer>beta</answer><|im_end|>", "a long one " * 30, "")
ID = "AgentR1/HotpotQA-v0"


def shout(record: ContextRecord) -> str:
    return f"{record.question} / {len(record.turns)} turns / {record.hint}"


@functools.cache
def tokenizers() -> tuple[Tokenizer, ...]:
    return (ByteTokenizer(), small.bpe_tokenizer(small.WITH_TOOLS), small.bpe_tokenizer(small.NO_END_TOKEN))


def core_of(rule: ContextRule, which: int = 0, **budgets: int) -> EpisodeCore[str]:
    task = SmallTask(tools=(lookup_tool(DOCUMENTS),))
    core = small_core(tokenizers()[which], task, context_rule=rule, **({"max_turns": 8} | budgets))
    core.reset(0, seed=7)
    return core


def play(core: EpisodeCore[str], texts: list[str]) -> Episode:
    for text in texts:
        core.feed(core.encode_turn(text))
    return core.snapshot()


def check_segments(episode: Episode) -> None:
    """The segments tile the tokens; prompts hold no trained token; each turn lies whole in one segment."""
    edges = [(segment.start, segment.stop) for segment in episode.segments]
    assert edges[0][0] == 0 and edges[-1][1] == len(episode.tokens)
    assert all(before[1] == after[0] for before, after in itertools.pairwise(edges))
    for segment in episode.segments:
        prompt = slice(segment.start, segment.start + segment.prompt_length)
        assert not episode.action_mask[prompt].any()
        assert set(episode.turn_ids[prompt]) == {-1}
    for turn in episode.turns:
        assert episode.action_mask[turn.start : turn.stop].all()
        assert not episode.action_mask[turn.stop : turn.feedback_stop].any()
        assert set(episode.turn_ids[turn.start : turn.feedback_stop]) <= {turn.index}
        homes = [
            s for s in episode.segments if s.start + s.prompt_length <= turn.start and turn.feedback_stop <= s.stop
        ]
        assert len(homes) == 1
        assert float(episode.rewards[turn.stop - 1]) == np.float32(turn.reward)
    mine = sum(turn.stop - turn.start for turn in episode.turns)
    if episode.reason is not None:
        assert mine == int(episode.action_mask.sum())
    assert float(episode.rewards.sum()) == pytest.approx(episode.total_reward)


@settings(max_examples=120)
@given(
    name=st.sampled_from(RULES),
    which=st.integers(0, 2),
    keep_turns=st.integers(1, 3),
    trigger_tokens=st.sampled_from([0, 0, 900, 1300]),
    stream_seed=st.integers(0, 10_000),
    max_context=st.integers(1100, 1900),
)
def test_tokens_chunks_and_turns_give_the_same_segments(
    name: str, which: int, keep_turns: int, trigger_tokens: int, stream_seed: int, max_context: int
) -> None:
    rule = make_rule(name, keep_turns, 0 if name == "append" else trigger_tokens, None)
    budgets = {"max_context": max_context, "max_turn_tokens": 120, "max_observation_tokens": 90}
    cores = [core_of(rule, which, **budgets) for _ in range(3)]
    stream = driving.random_stream(cores[0], stream_seed)
    by_token = driving.drive_by_token(cores[0], stream)
    assert by_token.reason is not None
    assert driving.plain(driving.drive_by_chunks(cores[1], stream, stream_seed)) == driving.plain(by_token)
    assert driving.plain(driving.drive_by_turns(cores[2], stream)) == driving.plain(by_token)
    sampled = by_token.tokens[by_token.action_mask].tolist()
    assert sampled == stream[: len(sampled)]
    assert all(segment.stop - segment.start <= max_context for segment in by_token.segments)
    check_segments(by_token)


def test_a_window_begins_with_the_prompt_and_holds_the_last_turns_as_they_were() -> None:
    core = core_of(make_rule("window", 2, 0, None))
    append = core_of(ContextRule())
    texts = [CALL, "idle é", CALL, CALL.replace("1", "0"), "idle"]
    episode, plain = play(core, texts), play(append, texts)
    check_segments(episode)
    prompt = plain.tokens[: plain.segments[0].prompt_length].tolist()
    spans = [plain.tokens[turn.start : turn.feedback_stop].tolist() for turn in plain.turns]
    assert len(episode.segments) == 4
    for number, segment in enumerate(episode.segments[1:], start=1):
        tokens = episode.tokens[segment.start : segment.start + segment.prompt_length].tolist()
        assert tokens == [*prompt, *spans[number], *spans[number + 1]]


def test_only_a_context_beyond_its_trigger_is_written_anew() -> None:
    whole = play(core_of(ContextRule()), [CALL] * 5)
    lengths = [turn.feedback_stop for turn in whole.turns]
    episode = play(core_of(make_rule("window", 1, lengths[2], None)), [CALL] * 5)
    assert next(s.stop - s.start for s in episode.segments) == whole.turns[3].stop
    assert len(episode.segments) == 2
    assert not play(core_of(make_rule("window", 1, lengths[4], None)), [CALL] * 5).segments[1:]


def test_a_full_context_slides_on_instead_of_ending_the_episode() -> None:
    budgets = {"max_context": 1300, "max_turns": 60, "max_observation_tokens": 400}
    stuck = core_of(ContextRule(), **budgets)
    sliding = core_of(make_rule("window", 3, 1299, None), **budgets)
    for core in (stuck, sliding):
        while not core.done:
            core.feed(core.encode_turn(CALL))
    assert stuck.reason is StopReason.CONTEXT
    assert sliding.reason is StopReason.MAX_TURNS and len(sliding.turns) == 60
    check_segments(sliding.snapshot())


def test_a_summary_stands_in_for_the_dropped_turns_and_is_no_command() -> None:
    core = core_of(make_rule("summary", 1, 0, None))
    episode = play(core, [CALL.replace("1", "0"), CALL])
    text = core.tokenizer.decode(core.context.tolist())
    assert 'lookup({"number": 0}): alpha <answer>beta</answer><|im_end|>' in text
    assert text.count(CALL) == 1 and not core.done
    # What the document spelled is letters, not the control token.
    assert core.context.tolist().count(258) == sum(1 for role in ("system", "user", "assistant", "user") if role)
    check_segments(episode)


def test_a_rebuilt_prompt_is_what_the_function_wrote() -> None:
    core = core_of(make_rule("rebuild", 1, 0, f"{__file__}:shout"), max_turns=3)
    core.feed(core.encode_turn(CALL))
    assert "What is document 0? / 1 turns / " in core.tokenizer.decode(core.context.tolist())
    core.feed(core.encode_turn("idle"))
    assert "2 turns / Call or answer.\nAnswer now." in core.tokenizer.decode(core.context.tolist())
    assert [event.kind for event in core.events].count(EventKind.ASKED_FOR_ANSWER) == 1
    check_segments(core.snapshot())


def test_the_defaults_tell_of_calls_results_and_words() -> None:
    core = core_of(ContextRule())
    turns = play(core, [CALL, "just words", "<tool_call>{broken</tool_call>"]).turns
    record = ContextRecord("Why?", turns, "Answer now.")
    assert summarise(record).splitlines()[2:3] == ["- said: just words"]
    assert rebuild(record).startswith("Why?\n\nDone so far:\n- lookup(")
    assert "- an unreadable call({}): Error: " in rebuild(record)
    assert rebuild(record).endswith("\nAnswer now.")
    assert rebuild(ContextRecord("Why?", (), "")) == "Why?"


def test_forks_and_restored_states_share_no_segment_to_come() -> None:
    core = core_of(make_rule("window", 1, 0, None))
    play(core, [CALL, CALL])
    saved = core.fork()
    other = core.fork()
    first = driving.plain(play(core, ["idle", "<answer>alpha</answer>"]))
    assert driving.plain(play(other, ["idle", "<answer>alpha</answer>"])) == first
    assert len(saved.turns) == 2 and not saved.done
    core.restore(saved)
    assert driving.plain(core.snapshot()) == driving.plain(saved.snapshot())
    assert driving.plain(play(core, ["idle", "<answer>alpha</answer>"])) == first


@pytest.mark.parametrize("observation", ["full", "delta"])
def test_a_rewritten_context_is_observed_whole(observation: str) -> None:
    options = {"context_rule": "window", "context_turns": 1, "max_context": 4096}
    env = gym.make(ID, observation=observation, **options)
    turn_env = gym.make(ID, level="turn", **options)
    env.reset(seed=3)
    turn_env.reset(seed=3)
    core = env.unwrapped.core  # type: ignore[attr-defined]
    segments = []
    for _ in range(3):
        for token_id in core.encode_turn("idle"):
            observed, *_, info = env.step(token_id)
        text, *_, turn_info = turn_env.step("idle")
        tokens = observed if observation == "delta" else observed["tokens"][: observed["length"]]
        segments.append(info["segment"])
        assert turn_info["segment"] == info["segment"]
        if info["segment"]:
            assert tokens.tolist() == core.context.tolist()
            assert text == core.tokenizer.decode(core.context.tolist())
    assert segments == [0, 1, 2]


def test_bad_rules_are_refused_with_advice() -> None:
    for options, words in (
        ({"context_rule": "forget"}, "append, window, summary, rebuild"),
        ({"context_rule": "window", "context_turns": 0}, "context_turns"),
        ({"context_tokens": -1}, "context_tokens"),
        ({"context_rule": "window", "context_function": "a:b"}, "belongs to"),
        ({"context_rule": "summary", "context_function": "json"}, "module:function"),
        ({"context_rule": "summary", "context_function": "json:nothing"}, "no function 'nothing'"),
        ({"context_rule": "summary", "context_function": "no_such_module:f"}, "cannot import"),
    ):
        with pytest.raises(ConfigError, match=words):
            gym.make(ID, **options)
