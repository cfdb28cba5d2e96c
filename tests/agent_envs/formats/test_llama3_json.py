"""Llama 3's JSON calls."""

from __future__ import annotations

import pytest

from agent_envs.chat import ChatRenderer
from agent_envs.formats import FORMATS, ParsedTurn
from agent_envs.tools import tool
from agent_envs.types import EventKind, Message, ToolCall
from tests.agent_envs import small_tokenizers as small

LLAMA = FORMATS.get("llama3-json")
CALL = '{"name": "a", "parameters": {"x": 1}}'
# Made after what Llama 3.1's template does: tools in the first message, results from "ipython", contents as JSON.
TEMPLATE = (
    "{% for message in messages %}<|im_start|>"
    "{{ 'ipython' if message.role == 'tool' else message.role }}<|end_header_id|>\n"
    "{% if tools and loop.first %}{% for tool in tools %}{{ tool | tojson }}{% endfor %}{% endif %}"
    "{% if message.role == 'tool' %}{{ message.content | tojson }}{% else %}{{ message.content }}{% endif %}"
    "<|im_end|>{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant<|end_header_id|>\n{% endif %}"
)


def lookup(number: int) -> str:
    """Look up a document."""
    return str(number)


@pytest.mark.parametrize(
    "text",
    [
        CALL,
        f"<|python_tag|>{CALL}",
        f"{CALL}<|eom_id|>",
        f"I will look. <|python_tag|> {CALL}\n",
        f"I will look it up: {CALL}",
        f"<think>{CALL}</think>\n{CALL}",
        '{"name": "a", "arguments": {"x": 1}}',
        '{"type": "function", "name": "a", "parameters": {"x": 1}}',
    ],
)
def test_a_call(text: str) -> None:
    assert LLAMA.parse(text) == ParsedTurn((ToolCall("a", {"x": 1}),), None, False)


def test_several_calls_are_separated_by_semicolons() -> None:
    text = LLAMA.write_calls([ToolCall("a", {"x": ";"}), ToolCall("b")])
    assert text == '{"name": "a", "parameters": {"x": ";"}}; {"name": "b", "parameters": {}}'
    assert [call.name for call in LLAMA.parse(f"<|python_tag|>{text};\n{CALL}").calls] == ["a", "b", "a"]


def test_a_turn_that_is_one_object_needs_no_parameters() -> None:
    assert LLAMA.parse('{"name": "a"}').calls == (ToolCall("a"),)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ('{"name": "a", "parameters": {"x": }}', "not valid JSON"),
        ('{"name": "a", "parameters": {"x": 1}', "not valid JSON"),
        ('{"name": "a", "parameters": []}', '"parameters" is not a JSON object'),
        ('{"answer": 42}', 'no "name"'),
        ("{whatever", "not valid JSON"),
        ("<|python_tag|>search.call(query='x')", "not valid JSON"),
        ("<|python_tag|>", "not valid JSON"),
    ],
)
def test_a_malformed_call_says_what_is_wrong(text: str, complaint: str) -> None:
    (call,) = LLAMA.parse(text).calls
    assert call.kind is EventKind.MALFORMED_CALL
    assert complaint in str(call.error)
    assert 'expected {"name": "...", "parameters": {...}}' in str(call.error)


@pytest.mark.parametrize("text", ["It is 4.", 'Such as {"x": 1}.', f"<think>{CALL}", f"<answer>{CALL}", ""])
def test_other_text_is_plain(text: str) -> None:
    assert LLAMA.parse(text) == ParsedTurn((), None, False)


def test_the_answer_stands_in_its_tags_and_no_call_in_it_counts() -> None:
    assert LLAMA.parse(f"<answer>{CALL}</answer>") == ParsedTurn((), CALL, True)


def test_the_end_of_a_message_ends_the_turn() -> None:
    assert LLAMA.closes_turn(f"<|python_tag|>{CALL}<|eom_id|>")
    assert LLAMA.closes_turn("<answer>x</answer>")
    assert not LLAMA.closes_turn(CALL)


def test_llamas_own_template_is_known() -> None:
    tokenizer = small.bpe_tokenizer(TEMPLATE)
    renderer = ChatRenderer(tokenizer, LLAMA, [tool(lookup).schema])
    assert renderer.template_knows_tools
    reply = tokenizer.decode(renderer.feedback([Message("tool", "seven")], renderer.end_of_turn_id, 100).ids)
    assert reply == ('<|im_start|>ipython<|end_header_id|>\n"seven"<|im_end|><|im_start|>assistant<|end_header_id|>\n')
    assert not ChatRenderer(tokenizer, FORMATS.get("hermes"), [tool(lookup).schema]).template_knows_tools
