"""The calculator: exact values, the spellings that models use, and bounds that no text passes."""

from __future__ import annotations

import re
import time
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_envs.errors import ToolUseError
from agent_envs.tools import TOOLS, ToolExecutor
from agent_envs.tools.calculator import MAX_LENGTH, calculator, evaluate
from agent_envs.types import EventKind, ToolCall


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("0.1 + 0.2", "0.3"),
        ("1/3", "0.333333333333333"),
        ("2/3*3", "2"),
        ("1e-7", "0.0000001"),
        ("007", "7"),
        ("-7 // 2", "-4"),
        ("-7 % 3", "2"),
        ("2 ** -2", "0.25"),
        ("-2 ** 2", "-4"),
        ("10**40 / 3", "3.33333333333333e39"),
        ("$1,200 * 3", "3600"),
        ("1,234,567.80", "1234567.8"),
        ("15% of 80", "12"),
        ("80 * 25 %", "20"),
        ("50 / 20%", "250"),
        ("(5 + 5)% * 2", "0.2"),
        ("sqrt(16)%", "0.04"),
        ("7 % 3", "1"),
        ("3 × 4 ÷ 2 − 1 =", "5"),
        ("2^10", "1024"),
        ("max(1,200)", "200"),  # a comma between arguments parts them
        ("max((1,200), 3)", "1200"),
        ("min(3, 1, 2)", "1"),
        ("sqrt(9/16)", "0.75"),
        ("sqrt(2)", "1.4142135623731"),
        ("round(2.675, 2)", "2.68"),  # a float would give 2.67
        ("round(1234.5, -2)", "1200"),
        ("floor(-1.5) + ceil(1.2)", "0"),
        ("abs(-3)", "3"),
        ("log(1000, 10)", "3"),
        ("log(e)", "1"),
        ("log(10**400, 10)", "400"),
        ("log(1 / 10**400, 10)", "-400"),
        ("exp(0)", "1"),
        ("cos(0) + sin(0) + tan(0)", "1"),
        ("sin(4) ** 2", "0.572750016904307"),
        ("pi", "3.14159265358979"),
    ],
)
def test_values(expression: str, value: str) -> None:
    assert calculator(expression) == value


@pytest.mark.parametrize(
    ("expression", "complaint"),
    [
        ("", "the expression is empty"),
        ("2 +", "cannot read '2 +'"),
        ("2 2", "a number, operator or parenthesis is amiss"),
        ("2 (3 + 4)", "write 2 * (3 + 4)"),
        ("1 < 2", "unexpected '<'"),
        ("x + 1", "unknown name 'x'; the known ones are: pi, e"),
        ("factorial(3)", "unknown function 'factorial'"),
        ("1 / 0", "division by zero"),
        ("5 % 0", "division by zero"),
        ("0 ** -1", "division by zero"),
        ("sqrt(0 - 1)", "sqrt is not defined for (-1)"),
        ("log(0)", "log is not defined for (0)"),
        ("min()", "min is not defined for ()"),
        ("(0 - 8) ** (1/3)", "no real power"),
        ("9 ** 9 ** 9", "too many digits"),
        ("1e999999999", "too large or too small"),
        ("exp(1000)", "the result is too large"),
        ("-" * 200 + "1", "nested deeper than 100"),
        ("1" * 501, "has 501 characters"),
        ("True + 1", "only numbers"),
        ("max(1, **3)", "only numbers"),
        ("1,2345", "only numbers"),
        ("1 if 2 else 3", "only numbers"),
        ("__import__('os')", "unexpected '_'"),
    ],
)
def test_what_has_no_value_is_said_in_words(expression: str, complaint: str) -> None:
    with pytest.raises(ToolUseError) as caught:
        calculator(expression)
    assert complaint in str(caught.value)


def test_it_is_a_tool_by_name() -> None:
    executor = ToolExecutor([TOOLS.get("calculator")()])
    calls = [ToolCall("calculator", {"expression": text}) for text in ("6 * 7", "6 *")]
    results = executor.run([executor.check(call) for call in calls])
    assert [result.kind for result in results] == [EventKind.CALL, EventKind.TOOL_ERROR]
    assert results[0].content == "42"


def test_the_hardest_allowed_work_is_short() -> None:
    start = time.perf_counter()
    for expression in (
        "*".join(["9**999"] * 70),
        "+".join(f"1/{n}**{900 + n}" for n in range(3, 50)),
        "9e999*" * 80 + "1",
    ):
        with pytest.raises(ToolUseError, match="too many digits"):
            calculator(expression)
    assert len(calculator("9**3000")) == 2863
    assert time.perf_counter() - start < 1


numbers = st.integers(0, 999).map(str) | st.decimals(0, 99, places=2).map(str)
expressions = st.recursive(
    numbers,
    lambda inner: (
        st.tuples(inner, st.sampled_from(["+", "-", "*", "/", "//", "%"]), inner).map(
            lambda parts: f"({' '.join(parts)})"
        )
        | inner.map(lambda text: f"(-{text})")
        | st.tuples(inner, st.integers(-3, 3)).map(lambda parts: f"({parts[0]} ** {parts[1]})")
    ),
    max_leaves=8,
)


@given(expressions)
def test_it_agrees_with_python(expression: str) -> None:
    exact = re.sub(r"(?<!\*\* )(?<!\*\* -)\b\d+(\.\d+)?", r"Fraction('\g<0>')", expression)
    try:
        expected = Fraction(eval(exact, {"Fraction": Fraction}))
    except ZeroDivisionError:
        with pytest.raises(ToolUseError, match="division by zero"):
            evaluate(expression)
        return
    if len(expression) <= MAX_LENGTH:
        assert evaluate(expression) == expected


@given(
    st.text(max_size=40)
    | st.text(alphabet="0123456789.,+-*/%()^$ episqrtmaxlog", max_size=60)
    | st.lists(st.sampled_from(["9", "1e9", "(", ")", "**", "-", "%", ",", "round", "True", "not ", "max", "*"])).map(
        "".join
    )
)
def test_no_text_raises_anything_but_a_tool_use_error(text: str) -> None:
    try:
        assert calculator(text)
    except ToolUseError as error:
        assert str(error)
