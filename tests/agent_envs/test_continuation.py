"""Turns that go on in the same message: what the chat template has written of the first turn is not there again."""

from __future__ import annotations

import pickle

import gymnasium as gym
import pytest

from agent_envs.budgets import Budgets
from agent_envs.episode import EpisodeCore
from agent_envs.formats import FORMATS
from agent_envs.tasks.base import OracleTurn
from agent_envs.tools import tool
from agent_envs.types import EventKind, ToolCall
from tests.agent_envs import small_tokenizers as small
from tests.agent_envs.small_task import SmallTask

THINKING = small.PLAIN.replace("<|im_start|>assistant\n{% endif %}", "<|im_start|>assistant\n<think>\n{% endif %}")


def thinking_core(tool_format: str) -> EpisodeCore[str]:
    """An episode whose chat template opens the policy's thought."""

    def search(query: str) -> str:
        """Look something up.

        Args:
            query: what.
        """
        return f"found <answer>{query}</answer>"

    task = SmallTask(tools=(tool(search, timeout_s=None),))
    core = EpisodeCore("AgentR1/Small-v0", task, small.bpe_tokenizer(THINKING), FORMATS.get(tool_format), Budgets())
    core.reset(0)
    return core


def test_the_thought_that_a_template_opens_is_closed_once() -> None:
    core = thinking_core("search-r1")
    core.feed(core.tokenizer.encode_plain("where is it?</think><search>alpha</search>"))
    assert [call.arguments for call in core.turns[0].calls] == [{"query": "alpha"}]
    result = core.feed(core.tokenizer.encode_plain("<search>beta</search> and more"))
    assert result.turn_ended and core.turns[1].text == "<search>beta</search>"
    assert [call.arguments for call in core.turns[1].calls] == [{"query": "beta"}]
    core.feed(core.tokenizer.encode_plain("so <answer>alpha</answer>"))
    assert core.snapshot().answer == "alpha" and core.snapshot().total_reward == 1.25


def test_a_message_of_its_own_opens_a_thought_again() -> None:
    core = thinking_core("search-r1")
    for _ in range(2):  # the end of turn makes the template write the next opening
        core.feed(core.encode_turn("no more than a thought"))
        assert core.events[-1].kind is EventKind.NO_ACTION
    assert core.encode_turn("<answer>alpha</answer>")[-1] == core.renderer.end_of_turn_id  # inside the thought
    core.feed(core.encode_turn("</think><answer>alpha</answer>"))
    assert core.snapshot().answer == "alpha"


def test_a_tag_within_a_thought_does_not_make_the_message_go_on() -> None:
    core = thinking_core("search-r1")
    core.feed(core.tokenizer.encode_plain("perhaps <search>alpha</search>"))
    core.end_turn()  # where the policy stopped, in its thought
    reply = core.tokenizer.decode(core.news.tolist())
    assert reply.startswith("<|im_end|>\n<|im_start|>user\n") and reply.endswith("<think>\n")


def test_forks_keep_the_opening_of_their_turn() -> None:
    core = thinking_core("search-r1")
    core.feed(core.tokenizer.encode_plain("where?</think><search>alpha</search>"))
    twin = core.fork()
    core.feed(core.encode_turn("nothing"))
    twin.feed(twin.tokenizer.encode_plain("<answer>alpha</answer>"))
    assert twin.snapshot().answer == "alpha"


@pytest.mark.parametrize("tool_format", ["search-r1", "react"])
def test_an_environment_is_pickled_in_the_middle_of_a_message(tool_format: str) -> None:
    env = gym.make("AgentR1/HotpotQA-v0", level="turn", tool_format=tool_format)
    env.reset(seed=1)
    core = env.unwrapped.core  # type: ignore[attr-defined]
    search = core.write_turn(OracleTurn((ToolCall("search", {"query": "river"}),)))
    env.step(search)
    twin = pickle.loads(pickle.dumps(env))
    assert str(env.step(search)) == str(twin.step(search))
