"""The embedded HotpotQA: bridge and comparison questions on made-up worlds, in the official row format.

The three parts are three worlds that share no name. ``generate_world`` makes further ones without end, for a policy
that must not learn any world by heart. Licence: the project's own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from agent_envs.data.mini_world import Entity, Kind, World, build_world
from agent_envs.data.names import Dice
from agent_envs.data.records import Passage, Question
from agent_envs.errors import ConfigError

PART_SIZES: dict[str, int] = {"train": 1600, "validation": 600, "test": 600}
"""Questions per part."""

NUM_PASSAGES = 700
_NUM_DISTRACTORS = 8
_COMPARISON_SHARE = 0.2
_YES_NO_SHARE = 0.4
_LEAST_YEARS_APART = 15
_LINK_KINDS = {"birthplace": Kind.TOWN, "seat": Kind.TOWN, "publisher": Kind.COMPANY, "studio": Kind.COMPANY}

# How a question names the middle entity: by its link from the first one.
_DESCRIPTIONS: dict[tuple[Kind, str], tuple[str, ...]] = {
    (Kind.FILM, "director"): ("the director of {}", "the one who directed {}", "whoever shot {}"),
    (Kind.FILM, "studio"): ("the studio of {}", "the company that produced {}", "the producer of {}"),
    (Kind.BOOK, "author"): ("the author of {}", "the one who wrote {}", "the writer of {}"),
    (Kind.BOOK, "publisher"): ("the publisher of {}", "the company behind {}", "the company that put out {}"),
    (Kind.COMPANY, "founder"): ("the founder of {}", "the one who started {}", "whoever set up {}"),
    (Kind.COMPANY, "seat"): ("the home of {}", "the town that houses {}", "the town with the headquarters of {}"),
    (Kind.TOWN, "mayor"): ("the head of {}", "whoever governs {}", "the leader of {}"),
    (Kind.PERSON, "birthplace"): ("the birthplace of {}", "the home town of {}", "the town that {} comes from"),
    (Kind.PERSON, "spouse"): ("the spouse of {}", "the one married to {}", "the husband or wife of {}"),
}

# How a question asks for an attribute of the middle entity.
_ASKS: dict[tuple[Kind, str], tuple[str, ...]] = {
    (Kind.PERSON, "birthplace"): (
        "What is the birthplace of {}?",
        "Which town does {} come from?",
        "In which town did the life of {} begin?",
    ),
    (Kind.PERSON, "birth year"): (
        "In which year did the life of {} begin?",
        "What is the year of birth of {}?",
        "When did {} come into the world?",
    ),
    (Kind.PERSON, "spouse"): (
        "Who is married to {}?",
        "What is the name of the spouse of {}?",
        "Who is the husband or wife of {}?",
    ),
    (Kind.COMPANY, "seat"): (
        "Which town is home to {}?",
        "Where are the headquarters of {}?",
        "What town does {} call home?",
    ),
    (Kind.COMPANY, "founder"): ("Who started {}?", "Who set up {}?", "Which person gave rise to {}?"),
    (Kind.TOWN, "river"): ("Which river flows past {}?", "What river runs through {}?", "Which water flows by {}?"),
    (Kind.TOWN, "mayor"): ("Who governs {}?", "Who is the head of {}?", "Who leads {}?"),
}
_CIRCULAR = (Kind.PERSON, "spouse", "spouse")

_EARLIER: dict[Kind, tuple[str, ...]] = {
    Kind.PERSON: ("Who is older, {} or {}?", "Whose life began earlier, that of {} or that of {}?"),
    Kind.FILM: ("Which film came out earlier, {} or {}?", "Which film is older, {} or {}?"),
    Kind.BOOK: ("Which book came out earlier, {} or {}?", "Which book is older, {} or {}?"),
    Kind.COMPANY: ("Which company is older, {} or {}?", "Which company started earlier, {} or {}?"),
}
_SAME: dict[tuple[Kind, str], tuple[str, ...]] = {
    (Kind.PERSON, "birthplace"): ("Do {} and {} come from the same town?", "Is the home town of {} and {} the same?"),
    (Kind.FILM, "director"): ("Did the same person direct {} and {}?", "Are {} and {} the work of the same person?"),
    (Kind.BOOK, "publisher"): ("Did the same company put out {} and {}?", "Do {} and {} have the same publisher?"),
    (Kind.COMPANY, "seat"): ("Are {} and {} in the same town?", "Do {} and {} call the same town home?"),
    (Kind.TOWN, "river"): ("Are {} and {} on the same river?", "Does the same river flow past {} and {}?"),
}


@dataclass(frozen=True, slots=True)
class Draft:
    """A question before it gets its paragraphs, with the facts behind it.

    Attributes:
        text: the question.
        answer: the one accepted answer.
        kind: "bridge" or "comparison".
        gold: the two entities whose passages the answer rests on, in the order of the hops.
        attributes: which fact of each gold entity counts; for a bridge, the link and then what is asked.
    """

    text: str
    answer: str
    kind: str
    gold: tuple[Entity, Entity]
    attributes: tuple[str, str]


def mini_parts() -> tuple[str, ...]:
    """The names of the parts."""
    return tuple(PART_SIZES)


@cache
def mini_split(part: str) -> tuple[Question, ...]:
    """The questions of one part.

    Raises:
        ConfigError: no such part.
    """
    return tuple(to_question(row) for row in mini_rows(part))


def mini_rows(part: str) -> list[dict[str, Any]]:
    """One part as rows of the official HotpotQA files, ready for ``json.dump``.

    Raises:
        ConfigError: no such part.
    """
    if part not in PART_SIZES:
        raise ConfigError(f"the embedded HotpotQA has the parts {', '.join(PART_SIZES)}; got {part!r}")
    return _rows(f"mini/{part}", PART_SIZES[part], mini_world(part))


@cache
def mini_world(part: str) -> World:
    """The world behind a part; none of its names is in the parts before it."""
    earlier = list(PART_SIZES)[: list(PART_SIZES).index(part)]
    exclude = frozenset().union(*(mini_world(name).names() for name in earlier))
    return build_world(Dice("mini", part, "world"), NUM_PASSAGES, exclude)


def mini_names() -> frozenset[str]:
    """Every name of every part: what a stream of training worlds has to leave out."""
    return frozenset().union(*(mini_world(part).names() for part in PART_SIZES))


def generate_world(
    seed: str, num_questions: int, num_passages: int = NUM_PASSAGES, exclude: frozenset[str] = frozenset()
) -> tuple[Question, ...]:
    """A freshly named world and questions on it; the same arguments give the same questions everywhere.

    Args:
        seed: any text; it also begins the task ids, ``"{seed}/0"`` and so on.
        num_questions: how many; more than the world has to offer is an error.
        num_passages: the size of the world.
        exclude: names not to use, such as ``mini_names()``.

    Raises:
        ConfigError: the world is too small for that many different questions.
    """
    world = build_world(Dice("stream", seed, "world"), num_passages, exclude)
    return tuple(to_question(row) for row in _rows(seed, num_questions, world))


def generate_drafts(
    seed: str, num_questions: int, num_passages: int = NUM_PASSAGES, exclude: frozenset[str] = frozenset()
) -> tuple[World, tuple[Draft, ...]]:
    """The world of ``generate_world`` with the facts behind its questions, in the same order.

    Raises:
        ConfigError: the world is too small for that many different questions.
    """
    world = build_world(Dice("stream", seed, "world"), num_passages, exclude)
    return world, tuple(_draft_questions(Dice(seed, "questions"), world, num_questions))


def to_question(row: Mapping[str, Any]) -> Question:
    """Reads one row in the official format; sentences after the first one bring their own leading space."""
    return Question(
        task_id=row["_id"],
        question=row["question"],
        answers=(row["answer"],),
        kind=row["type"],
        supporting_facts=tuple((title, index) for title, index in row["supporting_facts"]),
        passages=tuple(Passage(title, "".join(sentences)) for title, sentences in row["context"]),
    )


def _rows(seed: str, num_questions: int, world: World) -> list[dict[str, Any]]:
    dice = Dice(seed, "questions")
    drafts = _draft_questions(dice, world, num_questions)
    distractors = _Distractors(dice, world)
    return [_row(f"{seed}/{index}", draft, distractors.around(draft)) for index, draft in enumerate(drafts)]


def _row(row_id: str, draft: Draft, paragraphs: Sequence[Entity]) -> dict[str, Any]:
    facts = zip(draft.gold, draft.attributes, strict=True)
    return {
        "_id": row_id,
        "question": draft.text,
        "answer": draft.answer,
        "type": draft.kind,
        "level": "medium",
        "supporting_facts": [[entity.name, entity.told_in[attribute]] for entity, attribute in facts],
        "context": [
            [entity.name, [f" {text}" if index else text for index, text in enumerate(entity.sentences)]]
            for entity in paragraphs
        ],
    }


def _draft_questions(dice: Dice, world: World, num_questions: int) -> list[Draft]:
    """Different questions, comparisons at their share; gives up where the world has no more of them."""
    drafts: dict[str, Draft] = {}
    attempts_left = 50 * num_questions
    while len(drafts) < num_questions:
        draw = _choose_kind(dice)
        draft = draw(dice, world)
        while draft is None or draft.text in drafts:
            attempts_left -= 1
            if attempts_left < 0:
                raise ConfigError(
                    f"a world of {len(world.entities)} passages gave only {len(drafts)} of {num_questions} questions; "
                    "ask for fewer, or raise num_passages"
                )
            draft = draw(dice, world)
        drafts[draft.text] = draft
    return list(drafts.values())


def _choose_kind(dice: Dice) -> Callable[[Dice, World], Draft | None]:
    if not dice.chance(_COMPARISON_SHARE):
        return _draw_bridge
    return _draw_yes_no if dice.chance(_YES_NO_SHARE) else _draw_earlier


def _draw_bridge(dice: Dice, world: World) -> Draft | None:
    """First entity -> link -> middle entity -> attribute. None where the first passage gives the answer away."""
    kind, link = dice.choose(list(_DESCRIPTIONS))
    target = _LINK_KINDS.get(link, Kind.PERSON)
    attribute = dice.choose([name for where, name in _ASKS if where is target])
    if (kind, link, attribute) == _CIRCULAR:
        return None
    first = dice.choose(world.of_kind(kind))
    middle = world.entities[first.facts[link]]
    answer = middle.facts[attribute]
    description = dice.choose(_DESCRIPTIONS[kind, link]).format(first.name)
    text = dice.choose(_ASKS[target, attribute]).format(description)
    if answer in first.passage.text or answer in text or answer == first.name:
        return None
    return Draft(text, answer, "bridge", (first, middle), (link, attribute))


def _draw_earlier(dice: Dice, world: World) -> Draft | None:
    """Which of two has the earlier year. None where the years are too close."""
    kind = dice.choose(list(_EARLIER))
    attribute = "birth year" if kind is Kind.PERSON else "year"
    pair = (dice.choose(world.of_kind(kind)), dice.choose(world.of_kind(kind)))
    years = [int(entity.facts[attribute]) for entity in pair]
    if abs(years[0] - years[1]) < _LEAST_YEARS_APART:
        return None
    text = dice.choose(_EARLIER[kind]).format(pair[0].name, pair[1].name)
    return Draft(text, pair[years[1] < years[0]].name, "comparison", pair, (attribute, attribute))


def _draw_yes_no(dice: Dice, world: World) -> Draft | None:
    """Whether two have the same value; yes as often as no. None where the world has no such two."""
    kind, attribute = dice.choose(list(_SAME))
    same = dice.chance(0.5)
    for first in dice.shuffled(world.of_kind(kind)):
        fitting = [
            entity
            for entity in world.of_kind(kind)
            if entity is not first and (entity.facts[attribute] == first.facts[attribute]) is same
        ]
        if fitting:
            pair = (first, dice.choose(fitting))
            text = dice.choose(_SAME[kind, attribute]).format(pair[0].name, pair[1].name)
            return Draft(text, "yes" if same else "no", "comparison", pair, (attribute, attribute))
    return None


class _Distractors:
    """Finds distractors: what the gold passages name, what is named like them, and a deck of all passages in turn."""

    def __init__(self, dice: Dice, world: World) -> None:
        self._dice = dice
        self._world = world
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
            chosen.update((entity.name, entity) for entity in self._dice.shuffled(fresh)[:most])
        size = min(len(draft.gold) + _NUM_DISTRACTORS, len(self._world.entities))
        while len(chosen) < size:
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
