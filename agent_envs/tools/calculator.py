"""A calculator: arithmetic on one line, exact where arithmetic is, within bounds that no expression can pass.

Numbers are fractions, so that ``0.1 + 0.2`` is ``0.3``; roots, logarithms and the like give floats. The text is cut
into tokens, parsed by ``ast``, and only the few kinds of node below are evaluated. What a policy writes of its own
accord is understood: ``$1,200``, ``15%``, ``20% of 80``, ``3 × 4``, ``2^10``, a trailing ``=``.
"""

from __future__ import annotations

import ast
import decimal
import math
import operator
import re
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import TypeAlias, TypeVar

from agent_envs.errors import ToolUseError
from agent_envs.tools.base import Tool, tool

MAX_LENGTH = 500  # characters of an expression
MAX_DEPTH = 100  # of nested operations
MAX_BITS = 10_000  # of a numerator or denominator, some 3,000 digits
MAX_EXPONENT = 1_000  # of ten, in a number such as 1e6

Number: TypeAlias = Fraction | float
T = TypeVar("T")

_NUMBER = r"(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?"
_GROUPED = r"\d{1,3}(?:,\d{3})+(?!\d)(?:\.\d*)?"  # 1,234,567.8
_OTHER = r"(?P<name>[A-Za-z]\w*)|\*\*|//|[-+*/%(),]"
_TOKEN = re.compile(rf"\s*(?:(?P<number>{_GROUPED}|{_NUMBER})|{_OTHER})", re.ASCII)
_TOKEN_IN_CALL = re.compile(rf"\s*(?:(?P<number>{_NUMBER})|{_OTHER})", re.ASCII)  # where commas part arguments
_SPELLINGS = {"×": "*", "·": "*", "÷": "/", "−": "-", "–": "-", "^": "**", "$": "", "€": "", "£": "", "¥": ""}
_AFTER_PERCENTAGE = frozenset([")", ",", "+", "-", "*", "/", "//", "**", "%"])


def calculator_tool() -> Tool:
    """A tool ``calculator(expression)``."""
    return tool(calculator, timeout_s=None)  # its bounds keep it short: it needs no thread and no deadline


def calculator(expression: str) -> str:
    """Work out an arithmetic expression and get the number.

    Args:
        expression: such as (3 + 4.5) * 12 / 100. It may use + - * / // % ** and parentheses, percentages like 15%,
            the functions sqrt, abs, round, min, max, floor, ceil, log, exp, sin, cos, tan, and pi and e.
    """
    return write_number(evaluate(expression))


def evaluate(expression: str) -> Number:
    """The value of an expression.

    Raises:
        ToolUseError: it cannot be read, has no value, or passes a bound; the message says which.
    """
    if len(expression) > MAX_LENGTH:
        raise ToolUseError(f"the expression has {len(expression)} characters; {MAX_LENGTH} are allowed")
    source = " ".join(_rewrite_percentages(_tokens(_plain_signs(expression))))
    if not source:
        raise ToolUseError("the expression is empty; write one such as (3 + 4) * 2")
    try:
        tree = ast.parse(source, mode="eval")
    except (SyntaxError, ValueError, MemoryError, RecursionError) as error:
        raise ToolUseError(
            f"cannot read {source!r} as arithmetic: a number, operator or parenthesis is amiss"
        ) from error
    try:
        return _value(tree.body, source, depth=0)
    except ZeroDivisionError as error:
        raise ToolUseError("division by zero") from error
    except OverflowError as error:
        raise ToolUseError("the result is too large") from error


def write_number(number: Number) -> str:
    """The number as a decimal: whole where it has at most 30 digits, otherwise its first 15."""
    if isinstance(number, Fraction) and number.denominator == 1:
        return str(number.numerator)
    exact = Fraction(number)
    for digits in (30, 15):
        context = decimal.Context(prec=15 if isinstance(number, float) else digits)
        quotient = context.divide(decimal.Decimal(exact.numerator), decimal.Decimal(exact.denominator))
        if not context.flags[decimal.Inexact]:
            break
    quotient = quotient.normalize(context)
    return f"{quotient:f}" if -10 < quotient.adjusted() < 30 else str(quotient).lower().replace("e+", "e")


def _plain_signs(expression: str) -> str:
    for spelling, sign in _SPELLINGS.items():
        expression = expression.replace(spelling, sign)
    return re.sub(r"%\s*of\b", "% *", expression.strip().removesuffix("=").rstrip())


def _tokens(text: str) -> list[str]:
    tokens: list[str] = []
    in_call = [False]  # for each open parenthesis, whether a function's arguments are inside
    position = 0
    while position < len(text):
        match = (_TOKEN_IN_CALL if in_call[-1] else _TOKEN).match(text, position)
        if match is None:
            raise ToolUseError(f"unexpected {text[position:].lstrip()[:1]!r} in the expression")
        position = match.end()
        token = match.group().strip()
        if token == "(":
            in_call.append(bool(tokens) and tokens[-1][0].isalpha())
        elif token == ")" and len(in_call) > 1:
            in_call.pop()
        tokens.append(_plain_number(token) if match["number"] else token)
    return tokens


def _plain_number(text: str) -> str:
    """A number as Python writes it, no larger than it may be."""
    mantissa, _, exponent = text.replace(",", "").lower().partition("e")
    if exponent and (len(exponent) > 5 or abs(int(exponent)) > MAX_EXPONENT):
        raise ToolUseError(f"the number {text} is too large or too small")
    mantissa = mantissa.lstrip("0") or "0"
    return f"{mantissa}e{exponent}" if exponent else mantissa


def _rewrite_percentages(tokens: list[str]) -> list[str]:
    """``15%`` as ``(15/100)``. A % before an operand is a remainder: ``7 % 3``."""
    done: list[str] = []
    for position, token in enumerate(tokens):
        following = tokens[position + 1] if position + 1 < len(tokens) else ")"
        if token == "%" and done and following in _AFTER_PERCENTAGE:
            start = _start_of_operand(done)
            done = [*done[:start], "(", *done[start:], "/", "100", ")"]
        else:
            done.append(token)
    return done


def _start_of_operand(tokens: list[str]) -> int:
    """Where the number, name, call or parenthesis begins that the tokens end with."""
    depth = 0
    for start in range(len(tokens) - 1, -1, -1):
        depth += {")": 1, "(": -1}.get(tokens[start], 0)
        if depth <= 0:
            is_call = tokens[start] == "(" and start > 0 and tokens[start - 1][0].isalpha()
            return start - 1 if is_call else start
    return 0


def _value(node: ast.expr, source: str, depth: int) -> Number:
    if depth > MAX_DEPTH:
        raise ToolUseError(f"the expression is nested deeper than {MAX_DEPTH}")
    if isinstance(node, ast.Constant) and type(node.value) in (int, float):  # True is a constant too
        return Fraction(source[node.col_offset : node.end_col_offset])
    if isinstance(node, ast.UnaryOp) and type(node.op) in _SIGNS:
        return _SIGNS[type(node.op)](_value(node.operand, source, depth + 1))
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        left, right = _value(node.left, source, depth + 1), _value(node.right, source, depth + 1)
        return _bounded(_OPERATORS[type(node.op)](left, right))
    if isinstance(node, ast.Name):
        return _look_up(_CONSTANTS, node.id, "name")
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and not node.keywords:
        function = _look_up(_FUNCTIONS, node.func.id, "function")
        return _bounded(_apply(function, node.func.id, [_value(one, source, depth + 1) for one in node.args]))
    if isinstance(node, ast.Call) and not isinstance(node.func, ast.Name):
        raise ToolUseError("an operator is missing before a parenthesis; write 2 * (3 + 4)")
    raise ToolUseError("only numbers, + - * / // % **, parentheses and functions can be worked out")


def _look_up(table: Mapping[str, T], name: str, kind: str) -> T:
    if name not in table:
        raise ToolUseError(f"unknown {kind} {name!r}; the known ones are: {', '.join(table)}")
    return table[name]


def _apply(function: Callable[..., Number], name: str, arguments: list[Number]) -> Number:
    try:
        return function(*arguments)
    except (TypeError, ValueError) as error:
        shown = ", ".join(write_number(argument)[:20] for argument in arguments)
        raise ToolUseError(f"{name} is not defined for ({shown})") from error


def _bounded(number: Number) -> Number:
    if isinstance(number, Fraction):
        if max(number.numerator.bit_length(), number.denominator.bit_length()) > MAX_BITS:
            raise ToolUseError("the result has too many digits")
    elif not math.isfinite(number):
        raise ToolUseError("the result is too large")
    return number


def _power(base: Number, exponent: Number) -> Number:
    if isinstance(base, Fraction) and isinstance(exponent, Fraction) and exponent.denominator == 1:
        bits = max(base.numerator.bit_length(), base.denominator.bit_length())
        if bits > 1 and bits * abs(exponent.numerator) > 2 * MAX_BITS:
            raise ToolUseError("the result has too many digits")
        return base**exponent.numerator
    if base < 0 and exponent != int(exponent):
        raise ToolUseError("a negative number has no real power of a fraction")
    return math.pow(base, exponent)


def _root(number: Number) -> Number:
    """The square root, exact where there is an exact one."""
    if isinstance(number, Fraction) and number >= 0:
        top, bottom = math.isqrt(number.numerator), math.isqrt(number.denominator)
        if (top * top, bottom * bottom) == (number.numerator, number.denominator):
            return Fraction(top, bottom)
    return math.sqrt(number)


def _log(number: Number, *base: Number) -> Number:
    if isinstance(number, Fraction) and number > 0 and not -1000 < _magnitude(number) < 1000:  # no float holds it
        return (math.log(number.numerator) - math.log(number.denominator)) / (math.log(*base) if base else 1.0)
    return math.log(number, *base)


def _magnitude(number: Fraction) -> int:
    return number.numerator.bit_length() - number.denominator.bit_length()


def _round(number: Number, digits: Number = Fraction(0)) -> Number:
    if digits != int(digits) or not -MAX_LENGTH <= digits <= MAX_LENGTH:
        raise ValueError(digits)
    return Fraction(round(Fraction(number), int(digits)))


def _whole(rounding: Callable[[Number], int]) -> Callable[[Number], Number]:
    return lambda number: Fraction(rounding(number))


_SIGNS: Mapping[type[ast.unaryop], Callable[[Number], Number]] = {
    ast.UAdd: lambda number: +number,
    ast.USub: lambda number: -number,
}
_OPERATORS: Mapping[type[ast.operator], Callable[[Number, Number], Number]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: lambda left, right: Fraction(left // right),
    ast.Mod: operator.mod,
    ast.Pow: _power,
}
_CONSTANTS: Mapping[str, Number] = {"pi": math.pi, "e": math.e}
_FUNCTIONS: Mapping[str, Callable[..., Number]] = {
    "sqrt": _root,
    "abs": abs,
    "round": _round,
    "min": lambda first, *others: min(first, *others) if others else first,
    "max": lambda first, *others: max(first, *others) if others else first,
    "floor": _whole(math.floor),
    "ceil": _whole(math.ceil),
    "log": _log,
    "exp": math.exp,
    "sin": math.sin,
    "cos": math.cos,
    "tan": math.tan,
}
