"""The Search-R1 format."""

from __future__ import annotations

import pytest
from tokenizers import Tokenizer, decoders, models
from transformers import PreTrainedTokenizerFast

from agent_envs.budgets import Budgets
from agent_envs.episode import EpisodeCore
from agent_envs.formats import FORMATS, ParsedTurn
from agent_envs.tokenizers import HuggingFaceTokenizer
from agent_envs.tools import tool
from agent_envs.types import EventKind, Message, ToolCall
from tests.agent_envs import small_tokenizers as small
from tests.agent_envs.small_task import SmallTask

SEARCH = FORMATS.get("search-r1")


def search(query: str, top_k: int = 3) -> str:
    """Finds passages."""
    return query * top_k


def calculator(expression: str) -> str:
    """Works out a number."""
    return expression


def test_a_query_is_a_call_of_the_search() -> None:
    text = "<think>Who <search>not this</search></think>\n<search>\n Mara Velt's birthplace\n</search>"
    assert SEARCH.parse(text) == ParsedTurn((ToolCall("search", {"query": "Mara Velt's birthplace"}),), None, False)
    assert SEARCH.closes_turn(text)


def test_an_answer_ends_the_turn_too() -> None:
    text = "<think>Sure.</think><answer>Ostrava</answer>"
    assert SEARCH.parse(text) == ParsedTurn((), "Ostrava", True)
    assert SEARCH.closes_turn(text)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("<search> \n</search>", "the query is empty"),
        ("<search>x", "has no partner"),
        ("x</search>", "has no partner"),
    ],
)
def test_a_malformed_search_says_what_is_wrong(text: str, complaint: str) -> None:
    (call,) = SEARCH.parse(text).calls
    assert call.kind is EventKind.MALFORMED_CALL
    assert complaint in str(call.error)
    assert str(call.error).endswith("expected <search>what to look for</search>")


@pytest.mark.parametrize("text", ["<think><search>x</search>", "x</search>", "</answer>"])
def test_what_does_not_end_the_turn(text: str) -> None:
    assert not SEARCH.closes_turn(text)


def test_results_stand_right_behind_the_search() -> None:
    messages = [Message("tool", "", name="search"), Message("tool", ""), Message("user", "")]
    assert SEARCH.continuation(messages) == [
        "\n\n<information>",
        "</information>\n\n<information>",
        "</information>\n\n",
        "\n\n",
    ]
    assert SEARCH.wrap_result("Doc 1") == "<information>Doc 1</information>"


def test_it_calls_no_tool_but_the_search() -> None:
    assert SEARCH.refuses([tool(search).schema]) is None
    assert SEARCH.refuses([]) is None
    assert "the tools are search, calculator" in str(SEARCH.refuses([tool(search).schema, tool(calculator).schema]))
    assert "the tools are calculator" in str(SEARCH.refuses([tool(calculator).schema]))


def test_a_search_that_needs_more_than_a_query_is_refused() -> None:
    parameters = {"properties": {"query": {"type": "string"}, "index": {"type": "string"}}, "required": ["index"]}
    assert SEARCH.refuses([{"name": "search", "parameters": parameters}]) is not None
    numbers = {"properties": {"query": {"type": "integer"}}}
    assert SEARCH.refuses([{"name": "search", "parameters": numbers}]) is not None


def test_the_description_says_how_and_what() -> None:
    text = SEARCH.describe_tools([tool(search).schema])
    assert "<search>what to look for</search>" in text and text.endswith("Finds passages.")


def test_a_search_whose_last_token_holds_more_than_its_end_goes_on_too() -> None:
    backend = Tokenizer(models.BPE({chr(i): n for n, i in enumerate(range(9, 127))} | {">.": 200}, [(">", ".")]))
    backend.decoder = decoders.Fuse()
    backend.add_special_tokens(["<|im_start|>", "<|im_end|>"])
    fast = PreTrainedTokenizerFast(tokenizer_object=backend, eos_token="<|im_end|>")
    fast.chat_template = small.PLAIN
    tokenizer = HuggingFaceTokenizer("small-merged", fast)
    task = SmallTask(tools=(tool(search),))
    core = EpisodeCore("AgentR1/Small-v0", task, tokenizer, SEARCH, Budgets(), ask_final_answer=False)
    core.reset(0)
    ids = tokenizer.encode("<search>x</search>.")
    assert tokenizer.token_text(ids[-1]) == ">."
    core.feed(ids)
    turn = core.turns[0]
    reply = tokenizer.decode(core.snapshot().tokens[turn.stop : turn.feedback_stop].tolist())
    assert reply == "\n\n<information>xxx</information>\n\n"
