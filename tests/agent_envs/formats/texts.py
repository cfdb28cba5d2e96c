"""Texts that policies might write, for tests of every format."""

from __future__ import annotations

from hypothesis import strategies as st

from agent_envs.formats import FORMATS, ToolFormat
from agent_envs.types import ToolCall

NAMES = list(FORMATS)
# The one tool that a format can call, and its argument; the others can call any.
OWN_TOOL = {"search-r1": ("search", "query"), "retool": ("python", "code")}
JSON_FORMATS = [name for name in NAMES if name not in OWN_TOOL]
PLAIN_NAMES = {"harmony", "react"}  # write names outside JSON

LABELS = ("Thought:", "Action:", "Action Input:", "Observation:", "Final Answer:")
MARKS = sorted({tag for name in NAMES for tag in (*FORMATS.get(name).tags, *FORMATS.get(name).closing_tags)})

JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    # Texts that spell marks must come back too.
    | st.text(max_size=8) | st.lists(st.sampled_from([*MARKS, *LABELS, "\n", '"', "\\"]), max_size=3).map("".join),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=2),
    max_leaves=5,
)  # fmt: skip
ARGUMENTS = st.dictionaries(st.text(max_size=5), JSON_VALUES, max_size=3)
IDENTIFIERS = st.from_regex(r"[a-z_][a-z0-9_.-]{0,12}", fullmatch=True)


def example_call(name: str) -> ToolCall:
    tool, argument = OWN_TOOL.get(name, ("lookup", "number"))
    return ToolCall(tool, {argument: "1"})


def marks_of(tool_format: ToolFormat) -> tuple[str, ...]:
    return (*tool_format.tags, *tool_format.closing_tags)


def calls_for(name: str) -> st.SearchStrategy[ToolCall]:
    """Calls that the format can spell."""
    if name not in OWN_TOOL:
        names = IDENTIFIERS if name in PLAIN_NAMES else st.text(min_size=1, max_size=8)
        return st.builds(ToolCall, names, ARGUMENTS)
    tool, argument = OWN_TOOL[name]
    texts = plain_texts(name).filter(str.strip)
    if name == "search-r1":  # a query is stripped
        texts = texts.map(str.strip)
    return texts.map(lambda text: ToolCall(tool, {argument: text}))


def plain_texts(name: str) -> st.SearchStrategy[str]:
    """Texts that spell none of the format's marks."""
    pieces = st.text(max_size=8) | st.sampled_from(["```", "\n", "\\", "{", "}", "<", "  x", "\n\n", "```\n", "|>"])
    marks = (*marks_of(FORMATS.get(name)), *LABELS, "<answer", "</answer", "think>")
    return st.lists(pieces, max_size=8).map("".join).filter(lambda text: not any(mark in text for mark in marks))


def turns(name: str) -> st.SearchStrategy[str]:
    """Anything that a policy of this format might come up with: whole turns, broken ones, and a soup of tags."""
    tool_format = FORMATS.get(name)
    good = (tool_format.write_calls([example_call(name)]), tool_format.write_answer("é 漢"))
    pieces = st.sampled_from(
        [
            *good,
            *(text[: len(text) // 2] for text in good),
            *(text[len(text) // 2 :] for text in good),
            *marks_of(tool_format),
            "<think>hm",
            "</think>",
            *(f"\n{label} " for label in LABELS),
            '{"name": "a", "arguments": {}}',
            '[{"name": "a", "parameters": {"x": 1e999}}]',
            '{"name": 1',
            "functions.x to=",
            "<|channel|>analysis<|message|>",
            "\\boxed{",
            "```json\n",
            '"\\ud800"',
            "NaN",
            "\ud800",
            "\n",
            " words ",
            "[" * 40,
            "9" * 5000,
        ]
    )
    return st.text() | st.lists(pieces, max_size=10).map("".join)
