"""A reward: an expression over parts, paid out turn by turn.

The return of an episode is the expression over what its parts came to in the whole episode. A term with one part, paid
per turn, is paid as that part grows; every other term is paid at the end, and a part that is paid per turn stands in it
for its total. So ``0.2*support_gain`` is earned when a passage is found, and ``0.2*support_gain*answered`` at the end,
if there is an answer. An episode that the infrastructure ended earns nothing more.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from agent_envs.errors import ConfigError
from agent_envs.registry import Registry
from agent_envs.rewards.expression import Factor, Term, parse_expression
from agent_envs.rewards.parts import Part, PartValue, When
from agent_envs.tasks.base import Outcome

ItemT = TypeVar("ItemT")


@dataclass(frozen=True, slots=True)
class BoundPart(Generic[ItemT]):
    """A part with its parameters."""

    name: str
    when: When
    value: PartValue[ItemT]
    may_block: bool = False

    def read(self, outcome: Outcome[ItemT]) -> float:
        """The part's value for the episode so far.

        Raises:
            ConfigError: the part gave no finite number.
        """
        value = float(self.value(outcome))
        if not math.isfinite(value):
            raise ConfigError(f"the reward part {self.name} must give a finite number, not {value}")
        return value

    def gain(self, before: Outcome[ItemT], after: Outcome[ItemT]) -> float:
        """What was added in between."""
        return self.read(after) - self.read(before)


@dataclass(frozen=True, slots=True)
class BoundTerm(Generic[ItemT]):
    """A weight times a product of parts."""

    weight: float
    parts: tuple[BoundPart[ItemT], ...]

    @property
    def label(self) -> str:
        """The term as metrics call it."""
        return "*".join(part.name for part in self.parts) or "constant"

    @property
    def per_turn(self) -> bool:
        """True where each turn is paid what it added, False where the end is."""
        return len(self.parts) == 1 and self.parts[0].when == "turn"

    def gain(self, before: Outcome[ItemT], after: Outcome[ItemT]) -> float:
        """What a term that is paid per turn earns in between."""
        return self.weight * self.parts[0].gain(before, after)

    def total(self, outcome: Outcome[ItemT]) -> float:
        """What the term comes to in a whole episode. Parts behind one that is 0 are not read, which spares a judge."""
        value = self.weight
        for part in self.parts:
            value *= part.gain(_start_of(outcome), outcome) if part.when == "turn" else part.read(outcome)
            if value == 0.0:
                break
        return value


@dataclass(frozen=True, slots=True)
class Reward(Generic[ItemT]):
    """A reward, made by ``RewardCatalogue.get``. Immutable, shared between episodes."""

    terms: tuple[BoundTerm[ItemT], ...]

    @property
    def may_block(self) -> bool:
        """True where a part, such as a judge, may wait for somebody."""
        return any(part.may_block for term in self.terms for part in term.parts)

    def turn(self, outcome: Outcome[ItemT]) -> float:
        """What the last turn of the episode so far earns."""
        before = _without_last_turn(outcome)
        paid = [term.gain(before, outcome) for term in self.terms if term.per_turn]
        if outcome.reason is not None:
            paid += [term.total(outcome) for term in self.terms if not term.per_turn]
        return math.fsum(paid) + 0.0  # never -0.0

    def breakdown(self, outcome: Outcome[ItemT]) -> dict[str, float]:
        """What each term earned in a finished episode; the values sum to the return.

        Their names are ``reward/`` and the term's parts, such as ``reward/em*format``; ``reward/constant`` is the sum
        of the numbers that stand alone. Terms with the same parts count together, whatever their parameters.
        """
        failed = outcome.reason is not None and outcome.reason.failed
        paid_up_to = _without_last_turn(outcome) if failed else outcome
        earned: dict[str, float] = {}
        for term in self.terms:
            if term.per_turn:
                value = term.gain(_start_of(outcome), paid_up_to)
            else:
                value = 0.0 if failed else term.total(outcome)
            name = f"reward/{term.label}"
            earned[name] = earned.get(name, 0.0) + value
        return earned


class RewardCatalogue(Generic[ItemT]):
    """What the rewards of one kind of task are made of: its parts, and expressions with a name of their own."""

    def __init__(self, parts: Iterable[Part[Any]], named: Mapping[str, str]) -> None:
        """Takes the parts, and named expressions such as ``{"mean": "0.5*em + 0.5*f1"}``.

        Raises:
            ValueError: two of them share a name.
            ConfigError: a named expression is wrong.
        """
        self.parts = tuple(parts)
        self.named = dict(named)
        self._entries: Registry[Part[Any] | str] = Registry("reward part")
        for part in self.parts:
            self._entries.register(part.name, part)
        for name, text in self.named.items():
            self._entries.register(name, text)
            self.get(name)

    def get(self, text: str) -> Reward[ItemT]:
        """The reward that a text means: a part, a named expression, or an expression of both.

        Raises:
            ConfigError: the text is no expression, or a part's parameters are wrong.
            UnknownNameError: no such part; the message lists the known ones.
        """
        return Reward(tuple(self._bind_term(term) for term in parse_expression(text, self.named)))

    def _bind_term(self, term: Term) -> BoundTerm[ItemT]:
        return BoundTerm(term.weight, tuple(self._bind(factor) for factor in term.factors))

    def _bind(self, factor: Factor) -> BoundPart[ItemT]:
        part = self._entries.get(factor.name)
        if isinstance(part, str):
            raise ConfigError(f"{factor.name} stands for {part!r} and takes no parameters")
        return BoundPart(part.name, part.when, part.bind(dict(factor.parameters)), part.may_block)


def _start_of(outcome: Outcome[ItemT]) -> Outcome[ItemT]:
    return Outcome(outcome.item, (), (), None)


def _without_last_turn(outcome: Outcome[ItemT]) -> Outcome[ItemT]:
    turns = outcome.turns[:-1]
    events = tuple(event for event in outcome.events if event.turn < len(turns))
    return Outcome(outcome.item, turns, events, None)
