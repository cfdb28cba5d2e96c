"""The ReTool format."""

from __future__ import annotations

import pytest

from agent_envs.formats import FORMATS, ParsedTurn
from agent_envs.formats.retool import last_boxed
from agent_envs.tools import tool
from agent_envs.types import EventKind, Message, ToolCall

RETOOL = FORMATS.get("retool")


def python(code: str) -> str:
    """Runs a program."""
    return code


def calculator(expression: str) -> str:
    """Works out a number."""
    return expression


@pytest.mark.parametrize(
    ("block", "code"),
    [
        ("\n```python\nprint(1)\n```\n", "print(1)"),
        ("```py\nprint(1)```", "print(1)"),
        ("\n```\nif x:\n  y\n```", "if x:\n  y"),
        ("```python\n  indented\n\n```", "  indented\n"),
        ("\nprint(1)\n", "print(1)"),
        ("```python\nprint('```')\n```", "print('```')"),
        ("```python\nprint(1)\n", "print(1)"),
    ],
)
def test_code_stands_in_a_fence_or_bare(block: str, code: str) -> None:
    text = f"Let me see. <code>{block}</code>"
    assert RETOOL.parse(text) == ParsedTurn((ToolCall("python", {"code": code}),), None, False)
    assert RETOOL.closes_turn(text)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("<code>\n```python\n\n```\n</code>", "the code is empty"),
        ("<code></code>", "the code is empty"),
        ("<code>print(1)", "has no partner"),
        ("print(1)</code>", "has no partner"),
    ],
)
def test_malformed_code_says_what_is_wrong(text: str, complaint: str) -> None:
    (call,) = RETOOL.parse(text).calls
    assert call.kind is EventKind.MALFORMED_CALL
    assert complaint in str(call.error)
    assert "expected <code>" in str(call.error)


@pytest.mark.parametrize(
    ("text", "answer", "well_formed"),
    [
        (r"<answer>\boxed{42}</answer>", "42", True),
        (r"<answer> So it is $\boxed{\frac{1}{2}}$. </answer>", r"\frac{1}{2}", True),
        (r"<answer>\boxed{1} or \boxed{2}</answer>", "2", False),
        (r"<answer>\boxed{1} or \boxed{2</answer>", "1", False),
        (r"<answer>\boxed{\boxed{3}}</answer>", "3", False),
        (r"<answer>\boxed{}</answer>", "", False),
        (r"<answer>42</answer>", "42", True),
        (r"<answer>\boxed{42</answer>", r"\boxed{42", True),
        (r"<answer>\boxed{1}</answer><answer>\boxed{2}</answer>", "2", False),
        (r"\boxed{42}", None, False),
        (r"<think><answer>\boxed{42}</answer>", None, False),
    ],
)
def test_answers(text: str, answer: str | None, well_formed: bool) -> None:
    assert RETOOL.parse(text) == ParsedTurn((), answer, well_formed)


@pytest.mark.parametrize(
    ("text", "content"),
    [(r"\boxed{\{1, 2\}}", r"\{1, 2\}"), (r"\boxed{\{}", r"\{"), (r"\\boxed{1}", "1"), ("}}{{", None), ("", None)],
)
def test_escaped_braces_count_for_nothing(text: str, content: str | None) -> None:
    assert last_boxed(text) == content


def test_an_answer_that_would_break_its_box_is_written_bare() -> None:
    assert RETOOL.write_answer("x^{2}") == r"<answer>\boxed{x^{2}}</answer>"
    assert RETOOL.write_answer("}") == "<answer>}</answer>"


def test_output_stands_right_behind_the_code() -> None:
    messages = [Message("tool", "", name="python"), Message("user", "")]
    assert RETOOL.continuation(messages) == ["\n<interpreter>\n", "\n</interpreter>\n\n", "\n\n"]
    assert RETOOL.wrap_result("42") == "<interpreter>\n42\n</interpreter>"


def test_it_needs_a_python_tool() -> None:
    assert RETOOL.refuses([tool(python).schema]) is None
    assert RETOOL.refuses([tool(calculator).schema, tool(python).schema]) is None
    assert "the tools are calculator" in str(RETOOL.refuses([tool(calculator).schema]))
    text = RETOOL.describe_tools([tool(calculator).schema, tool(python).schema])
    assert "</code>" in text and text.endswith("Runs a program.")
