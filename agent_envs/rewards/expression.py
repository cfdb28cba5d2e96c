"""The text of a reward, read into a sum of products. Nothing is evaluated: the text is parsed, never run.

Grammar: numbers, names, names with keyword parameters (``tool_calls(free=1)``), ``+``, ``-``, ``*`` and parentheses.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NoReturn, TypeAlias

from agent_envs.errors import ConfigError

Parameter: TypeAlias = int | float | str

MAX_LENGTH = 1000  # characters
MAX_TERMS = 100  # after multiplying out


@dataclass(frozen=True, slots=True)
class Factor:
    """A part as written: its name and its parameters, sorted by name."""

    name: str
    parameters: tuple[tuple[str, Parameter], ...] = ()


@dataclass(frozen=True, slots=True)
class Term:
    """A weight times a product of parts; without parts, a constant."""

    weight: float
    factors: tuple[Factor, ...]


_Sum: TypeAlias = "dict[tuple[Factor, ...], float]"  # products of factors, in the order written, and their weights


def parse_expression(text: str, named: Mapping[str, str] | None = None) -> tuple[Term, ...]:
    """The terms of an expression, multiplied out, like ones together, in the order written.

    Args:
        text: the expression; line breaks count as spaces.
        named: texts that a bare name stands for.

    Raises:
        ConfigError: the text is no such expression; the message points at the place.
    """
    if not isinstance(text, str):
        raise ConfigError(f"a reward is text, such as 'em' or '0.5*em + 0.5*f1', not {text!r}")
    source = " ".join(text.split())
    products = _Reader(source, named or {}).read()
    if not all(map(math.isfinite, products.values())):
        raise ConfigError(f"the weights in the reward {source[:60]!r} multiply out to no finite number")
    return tuple(Term(weight, factors) for factors, weight in products.items())


class _Reader:
    """Reads one text; holds it for messages."""

    def __init__(self, source: str, named: Mapping[str, str]) -> None:
        self._source = source
        self._named = named

    def read(self) -> _Sum:
        if not self._source or len(self._source) > MAX_LENGTH:
            raise ConfigError(f"a reward has 1 to {MAX_LENGTH} characters, such as 'em', not {len(self._source)}")
        try:
            return self._sum(ast.parse(self._source, mode="eval").body)
        except SyntaxError as error:
            self._fail(error.msg, (error.offset or 1) - 1, 1)
        except ConfigError:
            raise
        except (RecursionError, MemoryError, OverflowError, ValueError) as error:
            raise ConfigError(f"the reward {self._source[:60]!r}... cannot be read: {error}") from error

    def _sum(self, node: ast.expr) -> _Sum:
        match node:
            case ast.Constant():
                return {(): self._number(node)}
            case ast.Name(id=name):
                return self._name(name)
            case ast.Call():
                return {(self._call(node),): 1.0}
            case ast.UnaryOp(op=ast.USub() | ast.UAdd(), operand=operand):
                sign = -1.0 if isinstance(node.op, ast.USub) else 1.0
                return {product: sign * weight for product, weight in self._sum(operand).items()}
            case ast.BinOp(left=left, op=ast.Add(), right=right):
                return _added(self._sum(left), self._sum(right), 1.0)
            case ast.BinOp(left=left, op=ast.Sub(), right=right):
                return _added(self._sum(left), self._sum(right), -1.0)
            case ast.BinOp(left=left, op=ast.Mult(), right=right):
                return self._product(node, self._sum(left), self._sum(right))
        self._refuse(node, "a reward is made of numbers, parts, +, -, * and parentheses only")

    def _name(self, name: str) -> _Sum:
        if name in self._named:
            return _Reader(self._named[name], {}).read()
        return {(Factor(name),): 1.0}

    def _call(self, node: ast.Call) -> Factor:
        if not isinstance(node.func, ast.Name):
            self._refuse(node, "only a part's name can take parameters")
        if node.args or any(keyword.arg is None for keyword in node.keywords):
            self._refuse(node, "parameters are written with their names, such as tool_calls(free=1)")
        given = [(str(keyword.arg), self._parameter(keyword.value)) for keyword in node.keywords]
        if len(dict(given)) != len(given):
            self._refuse(node, "a parameter is given twice")
        return Factor(node.func.id, tuple(sorted(given)))

    def _parameter(self, node: ast.expr) -> Parameter:
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            return node.value
        sign = 1
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            sign, node = -1, node.operand
        if isinstance(node, ast.Constant) and isinstance(node.value, int):
            return sign * int(self._number(node))
        return sign * self._number(node)

    def _number(self, node: ast.expr) -> float:
        value = node.value if isinstance(node, ast.Constant) else None
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            self._refuse(node, "a finite number belongs here")
        return float(value)

    def _product(self, node: ast.expr, left: _Sum, right: _Sum) -> _Sum:
        products: _Sum = {}
        for first, first_weight in left.items():
            for second, second_weight in right.items():
                _add_to(products, (*first, *second), first_weight * second_weight)
                if len(products) > MAX_TERMS:
                    self._refuse(node, f"this multiplies out to more than {MAX_TERMS} terms")
        return products

    def _refuse(self, node: ast.expr, why: str) -> NoReturn:
        raw = self._source.encode()  # ast counts bytes
        start = len(raw[: node.col_offset].decode())
        stop = len(raw[: node.end_col_offset].decode())
        self._fail(why, start, stop - start)

    def _fail(self, why: str, start: int, length: int) -> NoReturn:
        pointer = " " * start + "^" * max(1, length)
        raise ConfigError(f"cannot read this reward: {why}\n  {self._source}\n  {pointer}")


def _added(left: _Sum, right: _Sum, sign: float) -> _Sum:
    total = dict(left)
    for product, weight in right.items():
        _add_to(total, product, sign * weight)
    return total


def _add_to(total: _Sum, product: tuple[Factor, ...], weight: float) -> None:
    """Adds a product to a sum, to one of the same factors in another order if there is one."""
    same = next((known for known in total if sorted(known, key=repr) == sorted(product, key=repr)), product)
    total[same] = total.get(same, 0.0) + weight
