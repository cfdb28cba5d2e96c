"""The warm start's demonstrations: played by the environment, right when faultless, plausibly wrong when not."""

from __future__ import annotations

import numpy as np
import pytest

from agent_envs.data.mini_hotpot import mini_names
from agent_envs.tokenizers import ByteTokenizer
from agent_envs.types import Episode
from agent_trainer.demo import demonstrations
from agent_trainer.demo.demonstrations import FAULTLESS, FAULTY, DemonstrationStream, Habits, Stage


@pytest.fixture(autouse=True)
def room_for_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    """The byte tokenizer needs more tokens than the demo's own."""
    budgets = demonstrations.Budgets(max_turns=4, max_turn_tokens=256, max_observation_tokens=1024, max_context=4096)
    monkeypatch.setattr(demonstrations, "BUDGETS", budgets)
    monkeypatch.setattr(demonstrations, "LIVE_WORLDS", 2)


def drawn(habits: Habits, count: int = 150, seed: str = "a") -> list[Episode]:
    return DemonstrationStream(seed, ByteTokenizer()).draw(count, habits)


def share(episodes: list[Episode], metric: str) -> float:
    return float(np.mean([episode.metrics[metric] for episode in episodes]))


def test_faultless_demonstrations_answer_everything_with_two_searches() -> None:
    episodes = drawn(FAULTLESS)
    assert share(episodes, "em") == 1.0
    assert share(episodes, "support_recall") == 1.0
    assert share(episodes, "tool_calls") == 2.0


def test_faulty_demonstrations_keep_the_format_and_often_fail() -> None:
    episodes = drawn(FAULTY)
    assert share(episodes, "format") == 1.0
    assert share(episodes, "malformed_calls") == 0.0
    assert 0.2 < share(episodes, "em") < 0.55


@pytest.mark.parametrize("habit", [field for field in Habits.__slots__ if field != "give_up"])
def test_each_habit_alone_costs_answers_or_searches(habit: str) -> None:
    episodes = drawn(Habits(**{habit: 0.9, "give_up": 1.0}), count=60)
    assert share(episodes, "em") < 0.75 or share(episodes, "tool_calls") > 2.0


def test_same_seed_gives_the_same_tokens() -> None:
    first, second = drawn(FAULTY, 10), drawn(FAULTY, 10)
    for one, two in zip(first, second, strict=True):
        np.testing.assert_array_equal(one.tokens, two.tokens)
    other = drawn(FAULTY, 10, seed="b")
    assert any(not np.array_equal(one.tokens, two.tokens) for one, two in zip(first, other, strict=True))


def test_worlds_share_no_name_with_the_embedded_parts() -> None:
    assert Stage("c", ByteTokenizer(), 20).world.names().isdisjoint(mini_names())


def test_worlds_are_replaced_when_their_questions_are_used_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demonstrations, "QUESTIONS_PER_WORLD", 10)
    monkeypatch.setattr(demonstrations.Stage.__init__, "__defaults__", (10,))
    stream = DemonstrationStream("d", ByteTokenizer())
    before = stream.num_worlds
    stream.draw(40, FAULTLESS)
    assert stream.num_worlds > before
