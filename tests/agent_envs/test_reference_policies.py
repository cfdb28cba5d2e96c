"""Policies to measure against: pure, made of the episode's own format, and as good or bad as they say."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import pytest

from agent_envs.data.names import Dice
from agent_envs.episode import EpisodeCore
from agent_envs.reference_policies import REFERENCE_POLICIES, example_call, guess, malformed_turns, play
from agent_envs.tools import tool
from agent_envs.types import EventKind, StopReason
from tests.agent_envs.small_task import small_core


def started(**budgets: int) -> EpisodeCore[str]:
    core = small_core(**budgets)
    core.reset(1, seed=1)
    return core


@pytest.mark.parametrize("name", list(REFERENCE_POLICIES))
def test_the_same_dice_write_the_same_turn_and_change_nothing(name: str) -> None:
    core = started()
    before = core.snapshot().tokens.tolist()
    policy = REFERENCE_POLICIES.get(name)
    assert policy(core, Dice("a")) == policy(core, Dice("a"))
    assert core.snapshot().tokens.tolist() == before


def test_the_oracle_looks_the_answer_up_and_gives_it() -> None:
    episode = play(started(), REFERENCE_POLICIES.get("oracle"), Dice("x"))
    assert (episode.reason, episode.answer, len(episode.turns)) == (StopReason.ANSWERED, "beta", 2)


def test_random_tokens_end_with_a_token_or_a_budget() -> None:
    core = started(max_turn_tokens=30)
    for seed in range(20):
        ids = REFERENCE_POLICIES.get("random-tokens")(core, Dice(str(seed)))
        assert isinstance(ids, list)
        assert core.turn_length(ids) == len(ids) <= 30
    episode = play(core, REFERENCE_POLICIES.get("random-tokens"), Dice("x"))
    assert episode.reason in (StopReason.TURN_TOKENS, StopReason.MAX_TURNS)


def test_broken_calls_are_of_every_kind() -> None:
    kinds = set()
    for text in malformed_turns(started()):
        core = started()
        core.feed(core.encode_turn(text))
        assert not core.done
        kinds |= {event.kind for event in core.events}
    assert kinds == {EventKind.MALFORMED_CALL, EventKind.UNKNOWN_TOOL, EventKind.INVALID_ARGUMENTS}
    assert play(started(), REFERENCE_POLICIES.get("malformed"), Dice("x")).reason is StopReason.MAX_TURNS


def test_answers_at_once_take_one_turn() -> None:
    for name, answers in (("answer-at-once", {"yes"}), ("answer-without-tools", {"yes"})):
        episode = play(started(), REFERENCE_POLICIES.get(name), Dice("x"))
        assert (len(episode.turns), episode.reason) == (1, StopReason.ANSWERED)
        assert episode.answer in answers


@pytest.mark.parametrize(
    ("question", "guesses"),
    [
        ("Who directed The Silent Harbour?", {"The Silent Harbour"}),
        ("Which is older, Kelvo Mills or Bexo Press?", {"Kelvo Mills", "Bexo Press"}),
        ("Tom buys 3 pens at $4. How many dollars?", {"3", "4"}),
        ("what is it?", {"yes"}),
        ("", {"yes"}),
    ],
)
def test_a_guess_is_something_that_the_question_mentions(question: str, guesses: set[str]) -> None:
    assert {guess(question, Dice(str(seed))) for seed in range(30)} == guesses


def test_made_up_arguments_fit_their_schema() -> None:
    def function(
        text: str, count: int, ratio: float, flag: bool, items: list[str], note: str | None, extra: int = 3
    ) -> str:
        """Does nothing."""
        return ""

    made = tool(function)
    call = example_call(made)
    assert set(call.arguments) == {"text", "count", "ratio", "flag", "items", "note"}
    assert made.validate(call.arguments)["extra"] == 3


def test_the_table_goes_between_its_marks() -> None:
    from benchmarks import reference_policies as table

    core: Any = gym.make("AgentR1/HotpotQA-v0", level="turn").unwrapped
    core.reset(seed=0)
    played = [play(core.core, REFERENCE_POLICIES.get("oracle"), Dice("x"))]
    rows = [table.summary("`AgentR1/HotpotQA-v0`", "oracle", played)]
    page = table.with_table(f"before\n{table.BEGIN}\nold\n{table.END}\nafter\n", rows, 1)
    assert "| `AgentR1/HotpotQA-v0` | oracle | 1.000 | em 1.000 | 3.00 | `answered` 1 |" in page
    assert page.startswith("before\n")
    assert page.endswith("\nafter\n")
    assert "old" not in page
    with pytest.raises(ValueError, match="add the two lines"):
        table.with_table("no marks", rows, 1)
