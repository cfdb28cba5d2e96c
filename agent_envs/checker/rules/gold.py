"""Rules on the gold answer: nothing says it unasked, nothing but the judgement reads it, and the solution earns it."""

from __future__ import annotations

import dataclasses
import json
import math
import re
from collections.abc import Iterator, Mapping
from typing import Any

from agent_envs.checker.report import Finding
from agent_envs.checker.subject import SkipRuleError, Subject, compare, level_of, play_texts, recipe
from agent_envs.episode import EpisodeCore
from agent_envs.reference_policies import malformed_turns
from agent_envs.tasks.base import Task

_MIN_GOLD = 3  # characters: shorter answers stand everywhere by chance
_GOLD_FIELDS = ("answer", "answers", "solution")
_CANARY = "Xylophonograph"


def no_gold(subject: Subject) -> Iterator[Finding]:
    """The answer of the solution stands in no prompt, schema, hint or error that could tell it."""
    told: dict[str, list[bool]] = {}
    for seed in subject.seeds if len(subject.seeds) > 4 else range(subject.seeds[0], subject.seeds[0] + 5):
        core = subject.core(seed)
        gold = core.task.oracle(core.item)[-1].answer
        if gold is None:
            continue
        for place, text in _said_unasked(subject, core, seed):
            told.setdefault(place, []).append(_holds(text, gold))
    if not told:
        raise SkipRuleError("the solution ends in no answer text")
    for place, holds in told.items():
        if all(holds) and len(holds) > 1:
            got = f"it is there in all of {len(holds)} episodes"
            yield Finding(f"no gold answer in {place}", got, f"reset(seed={subject.seeds[0]}), look at {place}")


def blind_tools(subject: Subject) -> Iterator[Finding]:
    """With a canary in the place of the item's gold answer, prompt, tools and replies say the very same."""
    swapped = 0
    for seed in subject.seeds:
        core, other = subject.core(seed), subject.core(seed)
        task: Any = _OtherGold(other.task)
        other.task = task
        other.reset(core.task.index_of(core.snapshot().task_id), seed)
        if task.swapped == 0:
            continue
        swapped += 1
        turns = [*malformed_turns(core)[:2], "Let me see.", *_calls_of_the_solution(core)]
        play_texts(core, turns)
        play_texts(other, turns)
        how = f"{recipe('turn', seed, turns)}, with {_CANARY!r} in the place of the item's gold answer"
        expected = "the same tokens whatever the gold answer is: only the judgement reads it"
        yield from compare(expected, core.snapshot().tokens.tolist(), other.snapshot().tokens.tolist(), how)
    if not swapped:
        raise SkipRuleError(f"no text in a field of the item named {', '.join(_GOLD_FIELDS)} could be put in its place")


def oracle(subject: Subject) -> Iterator[Finding]:
    """The task's own solution ends the episode and earns what the task documents (``oracle_return``, else 1)."""
    wanted = float(getattr(subject.env.task, "oracle_return", 1.0))
    for seed in subject.seeds:
        core = subject.core(seed)
        turns = [core.write_turn(turn) for turn in core.task.oracle(core.item)]
        play_texts(core, turns)
        while not core.done:  # a driver repeats the last turn where the episode goes on
            core.feed(core.encode_turn(turns[-1]))
        episode = core.snapshot()
        if not episode.terminated or not math.isclose(episode.total_reward, wanted, abs_tol=1e-6):
            got = f"a return of {episode.total_reward} and reason {episode.reason}"
            yield Finding(f"a return of {wanted} and the task's own end", got, recipe("turn", seed, turns))


class _OtherGold:
    """A task whose items have a canary in the place of their gold answers."""

    def __init__(self, task: Task[Any]) -> None:
        self._task = task
        self.swapped = 0  # fields

    def __getattr__(self, name: str) -> Any:
        return getattr(self._task, name)

    def item(self, index: int) -> Any:
        item = self._task.item(index)
        if isinstance(item, dict):
            return item | self._canaries(item)
        if not dataclasses.is_dataclass(item) or isinstance(item, type):
            return item
        values = {field.name: getattr(item, field.name) for field in dataclasses.fields(item) if field.init}
        return dataclasses.replace(item, **self._canaries(values))

    def _canaries(self, values: dict[str, Any]) -> dict[str, Any]:
        """The gold fields that hold text, or a tuple or list of it, with other text."""
        changed: dict[str, Any] = {}
        for name in _GOLD_FIELDS:
            value = values.get(name)
            if isinstance(value, str):
                changed[name] = _CANARY
            elif isinstance(value, tuple | list) and value and all(isinstance(part, str) for part in value):
                changed[name] = type(value)([_CANARY])
        self.swapped += len(changed)
        return changed


def _calls_of_the_solution(core: EpisodeCore[Any]) -> list[str]:
    return [core.write_turn(turn) for turn in core.task.oracle(core.item) if turn.answer is None]


def _said_unasked(subject: Subject, core: EpisodeCore[Any], seed: int) -> Iterator[tuple[str, str]]:
    """What the environment says by itself, by place."""
    yield "the system prompt", core.task.system_prompt
    yield "the user's prompt", core.task.user_prompt(core.item)
    yield "the tools' schemas", json.dumps([tool.schema for tool in core.tools])
    for place, info in _infos(subject, seed):
        yield place, json.dumps({key: value for key, value in info.items() if key != "messages"})
    yield (
        "the words on a turn without action, or before the last",
        core.task.answer_request() + core.task.no_action_hint(),
    )
    for text in malformed_turns(core)[-3:-1]:
        twin = core.fork()
        twin.feed(twin.encode_turn(text))
        if not twin.done:
            yield "the reply to a broken call", "\n".join(message.content for message in twin.messages)


def _infos(subject: Subject, seed: int) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The info of reset, and that of a turn of mere words."""
    env = subject.own_copy()
    yield "the info of reset", env.reset(seed=seed)[1]
    words = "Let me see."
    info: Mapping[str, Any] = {}
    for action in [words] if level_of(env) == "turn" else env.core.encode_turn(words):
        info = env.step(action)[4]
    yield "the info of a step", info


def _holds(text: str, gold: str) -> bool:
    """Whether the text names the answer, as whole words."""
    if len(gold.strip()) < _MIN_GOLD or gold.strip().lower() in ("yes", "no", "true", "false"):
        return False
    return re.search(rf"(?<!\w){re.escape(gold.strip())}(?!\w)", text) is not None
