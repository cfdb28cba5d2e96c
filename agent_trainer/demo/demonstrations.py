"""Noisy demonstrations on freshly named worlds: the warm start of the demo's policy.

A demonstrator knows the facts and has habits, good and bad: it may answer with the entity halfway, follow the wrong
name of a passage, repeat a query, read the wrong sentence, or not look at all. Every mistake is one that a reader could
make: its words come from the question or from what was retrieved. So the policy learns to copy names, to call and to
answer, and learns *which* of these to do only as badly as the demonstrator. That choice is left for reinforcement.

Demonstrations are played through the environment's own core, so their tokens are those of the environment.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

from agent_envs.budgets import Budgets
from agent_envs.data.mini_hotpot import Draft, generate_drafts, generate_world, mini_names
from agent_envs.data.mini_world import Entity
from agent_envs.data.names import Dice
from agent_envs.data.records import Question
from agent_envs.episode import EpisodeCore
from agent_envs.formats import FORMATS
from agent_envs.retrieval import RETRIEVERS, corpus_of
from agent_envs.retrieval.base import Retriever
from agent_envs.rewards import QA_REWARDS
from agent_envs.tasks.base import OracleTurn
from agent_envs.tasks.qa import QaTask
from agent_envs.tokenizers import Tokenizer
from agent_envs.tools.search import search_tool
from agent_envs.types import Episode, ToolCall

TOP_K = 2
BUDGETS = Budgets(max_turns=4, max_turn_tokens=24, max_observation_tokens=160, max_context=512)
QUESTIONS_PER_WORLD = 384
LIVE_WORLDS = 8

DEMO_OPTIONS: dict[str, object] = {
    "system_prompt": "",
    "top_k": TOP_K,
    "ask_final_answer": False,
    **dataclasses.asdict(BUDGETS),
}
"""The options of ``AgentR1/HotpotQA-v0`` under which the demonstrations are played."""


@dataclass(frozen=True, slots=True)
class Habits:
    """How often the demonstrator errs, each a probability at the decision where it can.

    Attributes:
        guess: answers at once: a bridge by the name in the question, a comparison at random.
        stop_early: after the first search, answers by the entity halfway; a comparison at random.
        wrong_name: then looks up another name of the passages found.
        repeat: then searches for the same again.
        give_up: after such a detour, answers from where it led instead of going on.
        wrong_passage: in the end, answers from a passage beside the right one.
        wrong_fact: reads another fact of the passage than the one asked for; a comparison is turned around.
    """

    guess: float = 0.0
    stop_early: float = 0.0
    wrong_name: float = 0.0
    repeat: float = 0.0
    give_up: float = 0.0
    wrong_passage: float = 0.0
    wrong_fact: float = 0.0


FAULTLESS = Habits()
FAULTY = Habits(
    guess=0.1, stop_early=0.56, wrong_name=0.07, repeat=0.07, give_up=0.6, wrong_passage=0.1, wrong_fact=0.15
)
"""Stopping early is the likelier move after the first search, so that the greedy policy has it too."""


class Stage:
    """One generated world, ready to be played: its facts, its search and an episode core."""

    def __init__(self, seed: str, tokenizer: Tokenizer, num_questions: int = QUESTIONS_PER_WORLD) -> None:
        """Builds the world of that seed; it shares no name with the embedded parts."""
        self.world, self.drafts = generate_drafts(seed, num_questions, exclude=mini_names())
        questions = generate_world(seed, num_questions, exclude=mini_names())
        self._retriever = RETRIEVERS.get("bm25")(corpus_of(questions))
        self._core = demo_core(questions, self._retriever, tokenizer)

    def found(self, query: str) -> list[Entity]:
        """What a search brings up."""
        hits = self._retriever.search([query], TOP_K)[0]
        return [self.world.entities[hit.passage.title] for hit in hits]

    def play(self, index: int, turns: Sequence[OracleTurn]) -> Episode:
        """Plays these turns on the question of that index."""
        self._core.reset(index)
        for turn in turns:
            self._core.feed(self._core.encode_turn(self._write(turn)))
        return self._core.snapshot()

    def _write(self, turn: OracleTurn) -> str:
        """A turn as text. Names begin with a space, as they do in running text, so that they are the same tokens."""
        answer = None if turn.answer is None else f" {turn.answer}"
        calls = tuple(ToolCall(call.name, {"query": f" {call.arguments['query']}"}) for call in turn.calls)
        return self._core.write_turn(OracleTurn(calls, answer))


class DemonstrationStream:
    """Demonstrations without end: worlds are replaced as their questions are used up, so none is learned by heart."""

    def __init__(self, seed: str, tokenizer: Tokenizer, bridges_kept: float = 0.8) -> None:
        """The same arguments give the same demonstrations.

        Args:
            seed: of the worlds and of the habits.
            tokenizer: of the policy.
            bridges_kept: the share of bridge questions that are used; comparisons are a fifth of the data set and the
                harder kind, so they are practised more. 0.25 makes half of the demonstrations comparisons.
        """
        self._seed = seed
        self._tokenizer = tokenizer
        self._bridges_kept = bridges_kept
        self._dice = Dice(seed, "habits")
        self.num_worlds = 0
        self._live = [self._open_world() for _ in range(LIVE_WORLDS)]

    def draw(self, count: int, habits: Habits) -> list[Episode]:
        """The next demonstrations, of questions from several worlds."""
        episodes = []
        for _ in range(count):
            slot = self._dice.below(len(self._live))
            stage, left = self._live[slot]
            index = left.pop()
            episodes.append(stage.play(index, plan(stage.drafts[index], stage, habits, self._dice)))
            if not left:
                self._live[slot] = self._open_world()
        return episodes

    def _open_world(self) -> tuple[Stage, list[int]]:
        self.num_worlds += 1
        stage = Stage(f"{self._seed}/{self.num_worlds}", self._tokenizer)
        kept = [
            index
            for index, draft in enumerate(stage.drafts)
            if draft.kind == "comparison" or self._dice.chance(self._bridges_kept)
        ]
        return stage, self._dice.shuffled(kept)


def demo_core(questions: Sequence[Question], retriever: Retriever, tokenizer: Tokenizer) -> EpisodeCore[Question]:
    """An episode core with the demo's options, over questions of one's own."""
    task = QaTask(questions, search_tool(retriever, TOP_K), QA_REWARDS.get("paper"), system_prompt="")
    return EpisodeCore("AgentR1/HotpotQA-v0", task, tokenizer, FORMATS.get("hermes"), BUDGETS, ask_final_answer=False)


def plan(draft: Draft, stage: Stage, habits: Habits, dice: Dice) -> list[OracleTurn]:
    """What the demonstrator does on one question."""
    if draft.kind == "comparison":
        return _plan_comparison(draft, habits, dice)
    return _plan_bridge(draft, stage, habits, dice)


def _plan_comparison(draft: Draft, habits: Habits, dice: Dice) -> list[OracleTurn]:
    either = _answer(dice.choose([draft.answer, _other_answer(draft)]))
    if dice.chance(habits.guess):
        return [either]
    first, second = (_search(entity.name) for entity in draft.gold)
    opening = [first, first] if dice.chance(habits.repeat) else [first]
    if dice.chance(habits.stop_early):
        return [*opening, either]
    return [*opening, second, _answer(_other_answer(draft) if dice.chance(habits.wrong_fact) else draft.answer)]


def _other_answer(draft: Draft) -> str:
    choices = ("yes", "no") if draft.answer in ("yes", "no") else tuple(entity.name for entity in draft.gold)
    return choices[draft.answer == choices[0]]


def _plan_bridge(draft: Draft, stage: Stage, habits: Habits, dice: Dice) -> list[OracleTurn]:
    first, middle = draft.gold
    if dice.chance(habits.guess):
        return [_answer(first.name)]
    going_on = 1.0 - habits.stop_early - habits.wrong_name - habits.repeat
    move = dice.choose_weighted(
        {"stop": habits.stop_early, "wrong name": habits.wrong_name, "repeat": habits.repeat, "go on": going_on}
    )
    turns = [_search(first.name)]
    if move == "stop":
        return [*turns, _answer(middle.name)]
    if move != "go on":
        detour = first if move == "repeat" else _wrong_name(draft, stage, dice)
        turns.append(_search(detour.name))
        if dice.chance(habits.give_up):
            return [*turns, _answer(_read(detour, draft.attributes[1], habits, dice))]
    beside = [entity for entity in stage.found(middle.name) if entity is not middle]
    source = dice.choose(beside) if beside and dice.chance(habits.wrong_passage) else middle
    return [*turns, _search(middle.name), _answer(_read(source, draft.attributes[1], habits, dice))]


def _wrong_name(draft: Draft, stage: Stage, dice: Dice) -> Entity:
    """Another name in the first passage, or another passage found with it."""
    first, middle = draft.gold
    named = [stage.world.entities[value] for value in first.facts.values() if value in stage.world.entities]
    others = [entity for entity in [*named, *stage.found(first.name)] if entity is not middle and entity is not first]
    return dice.choose(others or [first])


def _read(entity: Entity, attribute: str, habits: Habits, dice: Dice) -> str:
    """The fact asked for, or another one of the passage, by mistake or for want of it."""
    if attribute in entity.facts and not dice.chance(habits.wrong_fact):
        return entity.facts[attribute]
    return dice.choose([value for name, value in entity.facts.items() if name not in (attribute, "trade")])


def _search(query: str) -> OracleTurn:
    return OracleTurn(calls=(ToolCall("search", {"query": query}),))


def _answer(text: str) -> OracleTurn:
    return OracleTurn(answer=text)
