"""What holds for every tool format: nothing raises, what is written is read back, a turn ends where it should."""

from __future__ import annotations

import json
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_envs.budgets import Budgets
from agent_envs.episode import EpisodeCore
from agent_envs.formats import FORMATS, ParsedTurn, ToolFormat
from agent_envs.options import EpisodeOptions, describe_options
from agent_envs.tokenizers import ByteTokenizer, Tokenizer
from agent_envs.tools import tool
from agent_envs.turn_ends import TurnEnds
from agent_envs.types import EventKind, Message, StopReason, ToolCall
from tests.agent_envs import small_tokenizers as small
from tests.agent_envs.formats import texts
from tests.agent_envs.small_task import SmallTask

TOKENIZERS = {"byte": ByteTokenizer(), "bpe": small.bpe_tokenizer()}
ENDLESS = 100_000  # characters of hostile text: what isn't linear in them never comes back
EVERY_FORMAT = pytest.mark.parametrize("name", texts.NAMES)


def check_parsed(parsed: ParsedTurn) -> None:
    for call in parsed.calls:
        json.dumps([call.name, dict(call.arguments), call.error], allow_nan=False, ensure_ascii=False).encode()
        assert (call.error is None) == (call.kind is EventKind.CALL)
        assert call.kind in (EventKind.CALL, EventKind.MALFORMED_CALL)
        assert call.error is None or "expected" in call.error
    (parsed.answer or "").encode()
    assert parsed.answer is None or parsed.answer == parsed.answer.strip()
    assert not parsed.answer_well_formed or parsed.answer


@EVERY_FORMAT
@settings(max_examples=50)
@given(data=st.data())
def test_no_text_raises(name: str, data: st.DataObject) -> None:
    tool_format, text = FORMATS.get(name), data.draw(texts.turns(name))
    check_parsed(tool_format.parse(text))
    assert isinstance(tool_format.closes_turn(text), bool)
    assert tool_format.opening(text) in ("", "<think>") or text.endswith(tool_format.opening(text))
    assert text in tool_format.wrap_result(text)
    assert text in tool_format.write_answer(text)
    call = ToolCall(text, {text: text})
    assert isinstance(tool_format.write_calls([call, call]), str)
    messages = [Message("tool", "x", name=text), Message("tool", "y"), Message("user", "z")]
    for count in range(4):
        glue = tool_format.continuation(messages[:count])
        assert glue is None or len(glue) == count + 1
        assert tool_format.continuation([Message("tool", "x", name="<|end|>")]) == tool_format.continuation(
            [Message("tool", "x", name="<|call|>")]
        )


@EVERY_FORMAT
@settings(max_examples=30)
@given(data=st.data())
def test_written_calls_are_read_back(name: str, data: st.DataObject) -> None:
    tool_format = FORMATS.get(name)
    call = data.draw(texts.calls_for(name))
    assert tool_format.parse(tool_format.write_calls([call])) == ParsedTurn((call,), None, False)


@pytest.mark.parametrize("name", texts.JSON_FORMATS)
@settings(max_examples=15)
@given(data=st.data())
def test_several_written_calls_are_read_back_in_order(name: str, data: st.DataObject) -> None:
    tool_format = FORMATS.get(name)
    calls = data.draw(st.lists(texts.calls_for(name), min_size=1, max_size=3))
    assert tool_format.parse(tool_format.write_calls(calls)).calls == tuple(calls)


@EVERY_FORMAT
@settings(max_examples=50)
@given(data=st.data())
def test_a_written_answer_is_read_back(name: str, data: st.DataObject) -> None:
    tool_format, answer = FORMATS.get(name), data.draw(texts.plain_texts(name))
    expected = ParsedTurn((), answer.strip(), bool(answer.strip()))
    assert tool_format.parse(tool_format.write_answer(answer)) == expected


@EVERY_FORMAT
def test_nothing_in_a_thought_is_acted_on(name: str) -> None:
    tool_format = FORMATS.get(name)
    said = tool_format.write_calls([texts.example_call(name)]) + tool_format.write_answer("x")
    opened, closed = ("<think>", "</think>")
    if name == "harmony":  # its thoughts have a channel
        opened, closed = ("<|channel|>analysis<|message|>", "<|end|>")
        said = said.replace("<|call|>", "").replace("<|return|>", "")  # which no thought can spell
    for thought in (f"{opened}{said}", f"{opened}{said}{closed}", f"{opened}a{closed}{opened}{said}"):
        assert tool_format.parse(thought) == ParsedTurn((), None, False)
        assert not tool_format.closes_turn(thought)


@EVERY_FORMAT
def test_words_are_neither_a_call_nor_an_answer(name: str) -> None:
    text = 'The tool search takes {"query": "..."}; an action is not a final answer: 4.'
    assert FORMATS.get(name).parse(text) == ParsedTurn((), None, False)
    assert not FORMATS.get(name).closes_turn(text)


@EVERY_FORMAT
def test_hostile_texts_are_read_in_linear_time(name: str) -> None:
    tool_format = FORMATS.get(name)
    units = [*texts.marks_of(tool_format), "<think>a</think>", '{"', '{"\\"', '[{"', '[{"a":', '{"name":', '{"a":[1,']
    units += ["\\boxed{", "\\boxed{}", "{", "}", "to=", " ", "\n", "\n ", "```", "<", "[ ", "\nAction: a", "; "]
    units += ["\nFinal Answer:", "<answer>a</answer>", '"', "\\", "<|channel|>final<|message|>a<|end|>"]
    for unit in units:
        text = unit * (ENDLESS // len(unit))
        check_parsed(tool_format.parse(text))
        tool_format.closes_turn(text)
        tool_format.opening(text)
    check_parsed(tool_format.parse("<answer>" + "\\boxed{" * 40_000 + "</answer>"))


def first_end(tool_format: ToolFormat, text: str) -> int | None:
    """The length of the shortest beginning of the text that ends the turn."""
    stops = {
        start + len(tag)
        for tag in tool_format.closing_tags
        for start in range(len(text))
        if text.startswith(tag, start)
    }
    return next((stop for stop in sorted(stops) if tool_format.closes_turn(text[:stop])), None)


def random_tokens(tokenizer: Tokenizer, text: str, seed: int) -> list[int]:
    """The text as ids that nobody's encoder would choose: cut anywhere, each piece encoded by itself."""
    dice, ids = random.Random(seed), []
    while text:
        size = dice.choice((1, 1, 2, 3, 5, 8, 40))
        ids += tokenizer.encode_plain(text[:size])
        text = text[size:]
    return ids


@pytest.mark.parametrize("kind", TOKENIZERS)
@EVERY_FORMAT
@settings(max_examples=25)
@given(data=st.data(), seed=st.integers(0, 2**32))
def test_a_turn_ends_at_the_same_character_however_it_is_cut_into_tokens(
    name: str, kind: str, data: st.DataObject, seed: int
) -> None:
    tool_format, tokenizer = FORMATS.get(name), TOKENIZERS[kind]
    text = data.draw(texts.turns(name)).encode("ascii", "ignore").decode()[:600]
    ends = TurnEnds(tokenizer, tokenizer.eos_ids, tool_format.closing_tags, tool_format.closes_turn)
    ids = random_tokens(tokenizer, text, seed)
    assert tokenizer.decode(ids) == text
    ended_at = next((count for count in range(1, len(ids) + 1) if ends.ends(ids[:count])), None)
    expected = first_end(tool_format, text)
    if expected is None:
        assert ended_at is None
    else:
        assert ended_at is not None
        assert len(tokenizer.decode(ids[: ended_at - 1])) < expected <= len(tokenizer.decode(ids[:ended_at]))


@EVERY_FORMAT
def test_a_format_has_its_own_name_and_is_listed_in_the_options(name: str) -> None:
    assert FORMATS.get(name).name == name
    (option,) = [option for option in describe_options(EpisodeOptions) if option.name == "tool_format"]
    assert f'"{name}"' in option.help


def search(query: str) -> str:
    """Look something up."""
    return f"found {query}"


def python(code: str) -> str:
    """Run a program."""
    return f"ran {code}"


@pytest.mark.parametrize("template", [small.WITH_TOOLS, small.PLAIN])
@EVERY_FORMAT
def test_an_episode_is_played_in_the_format(name: str, template: str) -> None:
    task = SmallTask(tools=(tool(python if name == "retool" else search),))
    core = EpisodeCore("AgentR1/Small-v0", task, small.bpe_tokenizer(template), FORMATS.get(name), Budgets())
    core.reset(0)
    call = ToolCall("python", {"code": "1"}) if name == "retool" else ToolCall("search", {"query": "1"})
    for text in (core.format.write_calls([call]), core.format.write_answer("alpha")):
        assert core.feed(core.encode_turn(text)).turn_ended
    assert core.reason is StopReason.ANSWERED
    assert [turn.calls for turn in core.turns] == [(call,), ()]
    assert core.turns[-1].answer == "alpha" and core.turns[-1].answer_well_formed
    feedback = core.snapshot().tokens[core.turns[0].stop : core.turns[0].feedback_stop]
    reply = core.tokenizer.decode(feedback.tolist())
    glue = core.format.continuation([Message("tool", "", name=call.name)])
    result = "ran 1" if name == "retool" else "found 1"
    assert result in reply
    if glue is not None:
        assert reply == result.join(glue)
