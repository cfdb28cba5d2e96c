"""Questions on made-up worlds as drafts: the text, the answer, and the facts behind them, hop by hop."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeAlias

from agent_envs.data.mini_wording import Fact, Order, Wording, target_of
from agent_envs.data.mini_world import Entity, Kind, World
from agent_envs.data.names import Dice
from agent_envs.errors import ConfigError

_MUTUAL = "spouse"
_ATTEMPTS_PER_QUESTION = 50
_ATTEMPTS_PER_KIND = 200


@dataclass(frozen=True, slots=True)
class Step:
    """One fact that an answer rests on.

    Attributes:
        entity: whose passage tells it.
        attribute: which of its facts.
        asked: the hop's own question in MuSiQue's shorthand, such as ``#1 >> spouse``: the spouse of hop 1's answer.
    """

    entity: Entity
    attribute: str
    asked: str = ""

    @property
    def value(self) -> str:
        """What the fact says."""
        return self.entity.facts[self.attribute]


@dataclass(frozen=True, slots=True)
class Draft:
    """A question before it gets its paragraphs.

    Attributes:
        text: the question.
        answer: the one accepted answer.
        kind: the set's question type.
        steps: the facts that the answer rests on, in the order of the hops.
    """

    text: str
    answer: str
    kind: str
    steps: tuple[Step, ...]

    @property
    def gold(self) -> tuple[Entity, ...]:
        """The entities whose passages the answer rests on, in the order of the hops."""
        return tuple(step.entity for step in self.steps)

    @property
    def attributes(self) -> tuple[str, ...]:
        """Which fact of each gold entity counts."""
        return tuple(step.attribute for step in self.steps)


Draw: TypeAlias = Callable[[Dice, World], Draft | None]
"""Draws one question of its kind, or None where what it drew makes no good question."""


@dataclass(frozen=True, slots=True)
class Subject:
    """One of the two that a comparison is about: what the question names, and the steps to what is compared."""

    named: Entity
    compared: Entity
    link: str | None = None

    def steps(self, attribute: str) -> tuple[Step, ...]:
        """The facts from the name to the value compared."""
        last = Step(self.compared, attribute)
        return (last,) if self.link is None else (Step(self.named, self.link), last)


def draft_questions(
    dice: Dice, world: World, num_questions: int, choose_draw: Callable[[Dice], Draw]
) -> tuple[Draft, ...]:
    """Different questions, each of the kind that ``choose_draw`` chose, unless the world seems to have no more of it.

    Raises:
        ConfigError: the world is too small for that many different questions.
    """
    drafts: dict[str, Draft] = {}
    attempts_left = _ATTEMPTS_PER_QUESTION * num_questions
    while len(drafts) < num_questions:
        draw = choose_draw(dice)
        for _ in range(_ATTEMPTS_PER_KIND):
            draft = draw(dice, world)
            if draft is not None and draft.text not in drafts:
                drafts[draft.text] = draft
                break
            attempts_left -= 1
        if attempts_left < 0:
            raise ConfigError(
                f"a world of {len(world.entities)} passages gave only {len(drafts)} of {num_questions} questions; "
                "ask for fewer, or raise num_passages"
            )
    return tuple(drafts.values())


def draw_chain(dice: Dice, world: World, wording: Wording, hops: int, kind: str) -> Draft | None:
    """First entity -> link -> next entity -> ... -> attribute; ``hops`` passages of different entities.

    None where a passage lacks the link, or where an entity or the answer is given away before its hop.
    """
    path = _draw_path(dice, wording, hops)
    if path is None:
        return None
    first = dice.choose(world.of_kind(path[0][0]))
    phrase = describe(dice, wording, first, path[:-1])
    text = dice.choose(wording.asks[path[-1]]).format(phrase)
    steps = follow(world, first, [attribute for _, attribute in path], first.name)
    return None if steps is None else checked(Draft(text, steps[-1].value, kind, steps))


def describe(dice: Dice, wording: Wording, first: Entity, path: Sequence[Fact]) -> str:
    """A name for the entity at the end of a path of links: "the home town of the author of ..."."""
    phrase = first.name
    for link in path:
        phrase = dice.choose(wording.descriptions[link]).format(phrase)
    return phrase


def checked(draft: Draft) -> Draft | None:
    """The draft, unless its question or an earlier passage gives away what a later hop is for."""
    return draft if draft.answer not in draft.text and needs_every_hop(draft.steps) else None


def _draw_path(dice: Dice, wording: Wording, hops: int) -> list[Fact] | None:
    """What is followed, hop by hop, the last one being what is asked. None where it leads straight back."""
    path = [dice.choose(list(wording.descriptions))]
    while len(path) < hops:
        table = wording.asks if len(path) == hops - 1 else wording.descriptions
        at = target_of(path[-1][1])
        path.append(dice.choose([fact for fact in table if fact[0] is at]))
    attributes = [attribute for _, attribute in path]
    leads_back = any(one == other == _MUTUAL for one, other in pairwise(attributes))
    return None if leads_back else path


def follow(
    world: World, first: Entity, attributes: Sequence[str], subject: str, earlier: int = 0
) -> tuple[Step, ...] | None:
    """The steps from an entity along its facts, named ``subject`` in the first hop; None where a fact is missing.

    ``earlier`` hops come before these, so that the first one is numbered ``earlier + 1``.
    """
    steps: list[Step] = []
    entity = first
    for number, attribute in enumerate(attributes, start=earlier + 1):
        if attribute not in entity.facts:
            return None
        steps.append(Step(entity, attribute, f"{subject} >> {attribute}"))
        subject = f"#{number}"
        if len(steps) < len(attributes):
            entity = world.entities[steps[-1].value]
    return tuple(steps)


def needs_every_hop(steps: Sequence[Step]) -> bool:
    """Whether every hop has a passage of its own, and no passage before it tells its answer; and none leads back."""
    names = [step.entity.name for step in steps]
    if len(set(names)) < len(names) or steps[-1].value in names:
        return False
    return not any(
        step.value in before.entity.passage.text for number, step in enumerate(steps) for before in steps[:number]
    )


def order_of(
    dice: Dice, subjects: Sequence[Subject], order: Order, forms: Sequence[str], wording: Wording
) -> Draft | None:
    """Which of two comes first (or last). None where the years are too close, or both are one."""
    _, attribute, latest = order
    pair = (dice.choose(subjects), dice.choose(subjects))
    years = [int(subject.compared.facts[attribute]) for subject in pair]
    if abs(years[0] - years[1]) < wording.least_years_apart:
        return None
    text = dice.choose(forms).format(pair[0].named.name, pair[1].named.name)
    second = years[1] > years[0] if latest else years[1] < years[0]
    return Draft(text, pair[second].named.name, _kind_of(pair), _pair_steps(pair, attribute))


def same_of(dice: Dice, subjects: Sequence[Subject], attribute: str, forms: Sequence[str], same: bool) -> Draft | None:
    """Whether two have the same value, which is so if ``same``. None where there are no such two."""
    for first in dice.shuffled(subjects):
        fitting = [
            other
            for other in subjects
            if other.compared is not first.compared
            and (other.compared.facts[attribute] == first.compared.facts[attribute]) is same
        ]
        if fitting:
            pair = (first, dice.choose(fitting))
            text = dice.choose(forms).format(pair[0].named.name, pair[1].named.name)
            return Draft(text, "yes" if same else "no", _kind_of(pair), _pair_steps(pair, attribute))
    return None


def draw_order(dice: Dice, world: World, wording: Wording) -> Draft | None:
    """Which of two entities comes first or last."""
    order = dice.choose(list(wording.orders))
    return order_of(dice, themselves(world, order[0], order[1]), order, wording.orders[order], wording)


def draw_same(dice: Dice, world: World, wording: Wording) -> Draft | None:
    """Whether two entities share a fact; yes as often as no."""
    kind, attribute = dice.choose(list(wording.same))
    subjects = themselves(world, kind, attribute)
    return same_of(dice, subjects, attribute, wording.same[kind, attribute], dice.chance(0.5))


def themselves(world: World, kind: Kind, attribute: str) -> list[Subject]:
    """The entities of a kind that have a fact, compared by it."""
    return [Subject(entity, entity) for entity in world.of_kind(kind) if attribute in entity.facts]


def _kind_of(pair: tuple[Subject, Subject]) -> str:
    return "comparison" if pair[0].link is None else "bridge_comparison"


def _pair_steps(pair: tuple[Subject, Subject], attribute: str) -> tuple[Step, ...]:
    """The steps of both, side by side: both names first."""
    rows = zip(pair[0].steps(attribute), pair[1].steps(attribute), strict=True)
    return tuple(step for row in rows for step in row)


class Distractors:
    """Finds distractors: what the gold passages name, what is named like them, and a deck of all passages in turn."""

    def __init__(self, dice: Dice, world: World, num_paragraphs: int) -> None:
        """Every question gets ``num_paragraphs``, gold ones included, or the whole world if that is smaller."""
        self._dice = dice
        self._world = world
        self._size = min(num_paragraphs, len(world.entities))
        self._by_word: dict[str, list[Entity]] = {}
        for entity in world.entities.values():
            for word in entity.name.split():
                self._by_word.setdefault(word, []).append(entity)
        self._deck = self._deal()

    def around(self, draft: Draft) -> list[Entity]:
        """The gold passages and their distractors in a random order."""
        chosen = {entity.name: entity for entity in draft.gold}
        sources: tuple[tuple[Callable[[Draft], list[Entity]], int], ...] = ((self._named, 3), (self._alike, 3))
        for source, most in sources:
            fresh = [entity for entity in source(draft) if entity.name not in chosen]
            room = max(0, min(most, self._size - len(chosen)))
            chosen.update((entity.name, entity) for entity in self._dice.shuffled(fresh)[:room])
        while len(chosen) < self._size:
            entity = next(self._deck)
            chosen.setdefault(entity.name, entity)
        return self._dice.shuffled(chosen.values())

    def _named(self, draft: Draft) -> list[Entity]:
        values = dict.fromkeys(value for entity in draft.gold for value in entity.facts.values())
        return [self._world.entities[value] for value in values if value in self._world.entities]

    def _alike(self, draft: Draft) -> list[Entity]:
        words = dict.fromkeys(
            word for entity in draft.gold for word in entity.name.split() if word not in ("The", "My")
        )
        return list(dict.fromkeys(entity for word in words for entity in self._by_word[word]))

    def _deal(self) -> Iterator[Entity]:
        while True:
            yield from self._dice.shuffled(self._world.entities.values())
