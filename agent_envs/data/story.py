"""A word problem while it's being told: its numbers, and the work done on them."""

from __future__ import annotations

import re
from fractions import Fraction

from agent_envs.data.names import Dice, Namer
from agent_envs.tools.calculator import evaluate, write_number

_NUMBER = re.compile(r"\d+(?:\.\d+)?")


class UnfitStoryError(Exception):
    """The numbers drawn make no sensible problem; draw again."""


class Story:
    """Draws numbers and names, and writes the rationale step by step."""

    def __init__(self, dice: Dice, namer: Namer) -> None:
        """Takes the sources of its numbers and names."""
        self.dice = dice
        self._namer = namer
        self.lines: list[str] = []
        self.answer = ""

    def number(self, low: int, high: int, step: int = 1) -> int:
        """A whole number from ``low`` to ``high``, both included, in steps from ``low``."""
        return low + step * self.dice.below((high - low) // step + 1)

    def price(self, low: int, high: int) -> str:
        """An amount in quarters between two whole ones, as it's written: 3, 3.25, 3.50 or 3.75."""
        quarters = self.number(4 * low, 4 * high)
        return str(quarters // 4) if quarters % 4 == 0 else f"{quarters / 4:.2f}"

    def one_of(self, *texts: str) -> str:
        """One of the texts."""
        return self.dice.choose(texts)

    def person(self) -> str:
        """A first name."""
        return self._namer.person().split()[0]

    def people(self) -> tuple[str, str]:
        """Two different first names."""
        first = second = self.person()
        while second == first:
            second = self.person()
        return first, second

    def step(self, text: str, expression: str) -> str:
        """Works out an expression and writes the line, ``text`` with the work in place of ``{}``.

        Returns:
            The value as written.

        Raises:
            UnfitStoryError: the value is not positive, or has more than two decimals.
        """
        value = evaluate(expression)
        if not isinstance(value, Fraction) or value <= 0 or (100 * value).denominator != 1:
            raise UnfitStoryError(expression)
        self.answer = write_number(value)
        self.lines.append(text.replace("{}", f"{expression} = <<{expression}={self.answer}>>{self.answer}"))
        return self.answer

    def require(self, sensible: bool) -> None:
        """Gives up numbers that make no sense.

        Raises:
            UnfitStoryError: ``sensible`` is False.
        """
        if not sensible:
            raise UnfitStoryError

    def finish(self, question: str) -> dict[str, str]:
        """The row in the official format.

        Raises:
            UnfitStoryError: the answer is a number of the question.
        """
        if Fraction(self.answer) in map(Fraction, _NUMBER.findall(question)):
            raise UnfitStoryError("the question holds the answer")
        return {"question": question, "answer": "\n".join([*self.lines, f"#### {self.answer}"])}


def numbers_of(question: str) -> tuple[str, ...]:
    """The numbers of a question, in order."""
    return tuple(_NUMBER.findall(question))
