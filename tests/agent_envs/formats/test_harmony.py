"""The harmony format of gpt-oss: channels, recipients, the ends of messages and turns."""

from __future__ import annotations

import pytest
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from agent_envs.budgets import Budgets
from agent_envs.episode import EpisodeCore
from agent_envs.formats import FORMATS, ParsedTurn
from agent_envs.tokenizers import HuggingFaceTokenizer
from agent_envs.turn_ends import TurnEnds
from agent_envs.types import EventKind, Message, StopReason, ToolCall
from tests.agent_envs.small_task import SmallTask

HARMONY = FORMATS.get("harmony")
THOUGHT = "<|channel|>analysis<|message|>Look it up.<|end|><|start|>assistant"
FINAL = "<|channel|>final<|message|>"
CALL = ToolCall("search", {"query": "x"})


def call_text(header: str, body: str = '{"query": "x"}') -> str:
    return f"{THOUGHT}{header}<|message|>{body}<|call|>"


@pytest.mark.parametrize(
    "header",
    [
        "<|channel|>commentary to=functions.search <|constrain|>json",
        " to=functions.search<|channel|>commentary <|constrain|>json",
        " to=functions.search<|channel|>commentary json",
        "<|channel|>commentary to=functions.search",
        "<|channel|>commentary to=functions.search<|constrain|>json",
    ],
)
def test_a_recipient_stands_before_or_behind_the_channel(header: str) -> None:
    text = call_text(header)
    assert HARMONY.parse(text) == ParsedTurn((CALL,), None, False)
    assert HARMONY.parse(text.removesuffix("<|call|>")).calls == (CALL,)  # where it was an end-of-turn token
    assert HARMONY.parse("<|start|>assistant" + text).calls == (CALL,)


@pytest.mark.parametrize(
    ("header", "body", "complaint"),
    [
        ("<|channel|>commentary to=functions.search", "query: x", "arguments of 'search' are not valid JSON"),
        ("<|channel|>commentary to=functions.search", '["x"]', "arguments of 'search' are a JSON list"),
        ("<|channel|>commentary to=functions.search", '{"x": NaN}', "NaN is not JSON"),
        ("<|channel|>commentary to=search", "{}", "the call is to 'search', not to functions.NAME"),
        ("<|channel|>commentary to=functions.", "{}", "not to functions.NAME"),
        ("<|channel|>commentary to= functions.search", "{}", "the call is to '', not to functions.NAME"),
        ("<|channel|>analysis to=functions.search", "{}", "is on the analysis channel, not on commentary"),
        ("<|channel|>final to=functions.search", "{}", "is on the final channel, not on commentary"),
        (" to=functions.search", "{}", "is on no channel, not on commentary"),
    ],
)
def test_a_malformed_call_says_what_is_wrong(header: str, body: str, complaint: str) -> None:
    parsed = HARMONY.parse(call_text(header, body))
    (call,) = parsed.calls
    assert call.kind is EventKind.MALFORMED_CALL
    assert complaint in str(call.error)
    assert "expected <|channel|>commentary to=functions.NAME" in str(call.error)
    assert parsed.answer is None


def test_a_header_without_a_message_is_malformed() -> None:
    (call,) = HARMONY.parse("<|channel|>commentary to=functions.search <|constrain|>json").calls
    assert "is followed by no <|message|>" in str(call.error)


@pytest.mark.parametrize(
    ("text", "answer", "well_formed"),
    [
        (f"{THOUGHT}{FINAL} Paris <|return|>", "Paris", True),
        (f"{THOUGHT}{FINAL}Paris", "Paris", True),
        (f"{FINAL}Paris<|end|>", "Paris", True),
        (f"<|start|>assistant{FINAL}Paris<|return|>", "Paris", True),
        (f"{FINAL}Rome<|end|><|start|>assistant{FINAL}Paris<|return|>", "Paris", False),
        (f"{FINAL}The capital is <answer>Paris</answer>.<|return|>", "Paris", True),
        (f"{FINAL}<answer>Rome</answer> <answer>Paris</answer><|return|>", "Paris", False),
        (f"{FINAL}<answer></answer><|return|>", "", False),
        (f"{FINAL}<answer>Paris<|return|>", "<answer>Paris", False),
        (f"{FINAL}<think>Rome</think>Paris<|return|>", "Paris", True),
        (f"{FINAL}<|return|>", "", False),
        ("<|channel|>final", None, False),
        ("Paris<|return|>", None, False),
        ("<|channel|>analysis<|message|>Paris<|return|>", None, False),
        ("<|channel|>commentary<|message|>I will look it up.<|end|>", None, False),
        (f"{FINAL}Rome<|return|><|start|>assistant{FINAL}Paris<|return|>", "Rome", True),
    ],
)
def test_answers(text: str, answer: str | None, well_formed: bool) -> None:
    assert HARMONY.parse(text) == ParsedTurn((), answer, well_formed)


def test_an_open_thought_swallows_what_follows() -> None:
    text = f"<|channel|>analysis<|message|>hm <|start|>assistant{FINAL}Rome"
    assert HARMONY.parse(text) == ParsedTurn((), None, False)


def test_messages_of_made_up_roles_are_not_read() -> None:
    invented = "<|start|>functions.search to=assistant<|channel|>commentary<|message|>found<|end|>"
    text = f"{invented}<|start|>user<|channel|>final<|message|>Rome<|end|><|start|>assistant{FINAL}Paris"
    assert HARMONY.parse(text) == ParsedTurn((), "Paris", True)


def test_a_turn_ends_at_a_call_or_a_return_and_not_at_an_end() -> None:
    assert HARMONY.closes_turn(call_text("<|channel|>commentary to=functions.search"))
    assert HARMONY.closes_turn(f"{FINAL}Paris<|return|>")
    assert not HARMONY.closes_turn(f"{THOUGHT}{FINAL}Paris<|end|>")


def test_only_the_last_of_several_calls_ends_the_turn() -> None:
    text = HARMONY.write_calls([CALL, ToolCall("b")])
    assert text == (
        '<|channel|>commentary to=functions.search <|constrain|>json<|message|>{"query": "x"}<|end|><|start|>assistant'
        "<|channel|>commentary to=functions.b <|constrain|>json<|message|>{}<|call|>"
    )


def test_results_and_words_come_as_messages_and_the_next_one_is_begun() -> None:
    messages = [Message("tool", "", name="search"), Message("tool", "", name="x<|end|>"), Message("user", "")]
    assert HARMONY.continuation(messages) == [
        "<|start|>functions.search to=assistant<|channel|>commentary<|message|>",
        "<|end|><|start|>functions.unknown to=assistant<|channel|>commentary<|message|>",
        "<|end|><|start|>user<|message|>",
        "<|end|><|start|>assistant",
    ]


def test_what_the_prompt_has_begun_belongs_to_the_turn() -> None:
    prompt = "<|start|>user<|message|>What?<|end|><|start|>assistant"
    assert HARMONY.opening(prompt) == "<|start|>assistant"
    begun = HARMONY.opening(f"{prompt}<|channel|>analysis<|message|>")
    assert HARMONY.parse(f"{begun}{FINAL}Rome<|end|><|start|>assistant{FINAL}Paris").answer == "Paris"
    assert HARMONY.opening("<|start|>user<|message|>What?<|end|>") == HARMONY.opening("What?") == ""


def test_tools_are_described_as_types() -> None:
    schema = {
        "type": "function",
        "function": {
            "name": "book",
            "description": "Book a room.\nPay later.",
            "parameters": {
                "type": "object",
                "properties": {
                    "guests": {"type": "array", "items": {"$ref": "#/$defs/Guest"}, "description": "Who comes."},
                    "kind": {"enum": ["single", "double"], "default": "single"},
                    "nights": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
                    "tags": {"type": "array", "items": {"enum": ["a", "b"]}},
                    "extra": {"type": "object"},
                    "odd": {"$ref": "#/nowhere"},
                },
                "required": ["guests", "nights"],
                "$defs": {
                    "Guest": {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
                },
            },
        },
    }
    text = HARMONY.describe_tools([schema, {"name": "ping"}])
    assert text.endswith(
        """namespace functions {

// Book a room.
// Pay later.
type book = (_: {
// Who comes.
guests: {
name: string,
}[],
kind?: "single" | "double", // default: "single"
nights: number | null,
tags?: ("a" | "b")[],
extra?: object,
odd?: any,
}) => any;

type ping = () => any;

} // namespace functions"""
    )


def test_a_schema_that_refers_to_itself_ends() -> None:
    node = {"type": "object", "properties": {"next": {"$ref": "#/$defs/Node"}, "again": {"$ref": "#/$defs/Node"}}}
    parameters = {"properties": {"root": {"$ref": "#/$defs/Node"}}, "$defs": {"Node": node}}
    assert "any" in HARMONY.describe_tools([{"name": "walk", "parameters": parameters}])


def gpt_oss_tokenizer() -> HuggingFaceTokenizer:
    """Characters and harmony's control tokens, with a chat template after that of gpt-oss."""
    backend = Tokenizer(models.BPE({chr(i): n for n, i in enumerate([10, *range(32, 127)])}, []))
    backend.pre_tokenizer, backend.decoder = pre_tokenizers.Split("", "isolated"), decoders.Fuse()
    backend.add_special_tokens(list(HARMONY.tags))
    fast = PreTrainedTokenizerFast(tokenizer_object=backend, eos_token="<|return|>")
    fast.chat_template = (
        "{% for message in messages %}"
        "{% if message.role == 'tool' %}{{ raise_exception('a result without a call') }}{% endif %}"
        "<|start|>{{ 'developer' if message.role == 'system' else message.role }}"
        "{% if message.role == 'assistant' %}<|channel|>final{% endif %}<|message|>{{ message.content }}<|end|>"
        "{% endfor %}{% if add_generation_prompt %}<|start|>assistant{% endif %}"
    )
    return HuggingFaceTokenizer("small-harmony", fast)


def test_control_tokens_end_the_turn_as_their_text_does() -> None:
    tokenizer = gpt_oss_tokenizer()
    ends = TurnEnds(tokenizer, tokenizer.eos_ids, HARMONY.closing_tags, HARMONY.closes_turn)
    for text in (call_text("<|channel|>commentary to=functions.search"), f"{THOUGHT}{FINAL}Paris<|return|>"):
        ids = tokenizer.encode(text)
        assert tokenizer.decode(ids) == text
        assert [ends.ends(ids[: count + 1]) for count in range(len(ids))] == [False] * (len(ids) - 1) + [True]


def test_an_episode_with_gpt_oss_own_tokens_goes_on_through_thoughts_calls_and_bad_endings() -> None:
    tokenizer = gpt_oss_tokenizer()
    core = EpisodeCore("AgentR1/Small-v0", SmallTask(system_prompt="Be brief."), tokenizer, HARMONY, Budgets())
    core.reset(1)
    assert tokenizer.decode(core.context.tolist()).endswith("<|end|><|start|>assistant")
    turns = [
        f'{THOUGHT}<|channel|>commentary to=functions.lookup <|constrain|>json<|message|>{{"number": 1}}<|call|>',
        "<|channel|>analysis<|message|>Done.<|return|>",
        f"{THOUGHT}{FINAL}beta<|return|>",
    ]
    for text in turns:
        assert core.encode_turn(text) == tokenizer.encode(text)
        result = core.feed(tokenizer.encode(text))
        assert (result.consumed, result.turn_ended) == (len(tokenizer.encode(text)), True)
    assert core.reason is StopReason.ANSWERED and core.turns[-1].answer == "beta"
    record = core.snapshot()
    replies = [tokenizer.decode(record.tokens[turn.stop : turn.feedback_stop].tolist()) for turn in core.turns]
    assert replies == [
        "<|start|>functions.lookup to=assistant<|channel|>commentary<|message|>beta<|end|><|start|>assistant",
        "<|start|>user<|message|>Call or answer.<|end|><|start|>assistant",
        "",
    ]
