"""Episodes of question answering written down by hand, without a tokenizer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from agent_envs.data.records import Passage, Question
from agent_envs.tasks.base import Outcome
from agent_envs.types import Event, EventKind, StopReason, ToolCall, ToolResult, Turn

GOLD = ("Ada Vell", "Vell Works", "Port Ome")

QUESTION = Question(
    task_id="q",
    question="Where are Vell Works?",
    answers=("Port Ome", "Ome"),
    kind="bridge",
    supporting_facts=tuple((title, 0) for title in GOLD),
    passages=tuple(Passage(title, f"{title} is a thing.") for title in GOLD),
)


@dataclass(frozen=True)
class Said:
    """One turn: what each call found, malformed calls, the answer, its tokens, and what tells passages apart."""

    found: Sequence[Sequence[str]] = ()
    malformed: int = 0
    answer: str | None = None
    well_formed: bool = True
    tokens: int = 10
    found_by: str = "titles"


def outcome_of(said: Sequence[Said], reason: StopReason | None, item: Question = QUESTION) -> Outcome[Question]:
    """The episode of these turns, as a task is shown it after the last one."""
    turns: list[Turn] = []
    events: list[Event] = []
    at = 0
    for index, turn in enumerate(said):
        calls = [ToolCall("search", {"query": "x"}) for _ in turn.found]
        calls += [ToolCall("search", error="bad", kind=EventKind.MALFORMED_CALL)] * turn.malformed
        results = [ToolResult("text", {turn.found_by: list(found)}) for found in turn.found]
        results += [ToolResult("Error: bad", kind=EventKind.MALFORMED_CALL)] * turn.malformed
        events += [Event(call.kind, index) for call in calls]
        if turn.answer is not None:
            events.append(Event(EventKind.ANSWER, index))
        elif not calls:
            events.append(Event(EventKind.NO_ACTION, index))
        well_formed = turn.answer is not None and turn.well_formed
        stop = at + turn.tokens
        turns.append(Turn(index, at, stop, stop + 5, "", turn.answer, well_formed, tuple(calls), tuple(results)))
        at = stop + 5
    return Outcome(item, tuple(turns), tuple(events), reason)


def played(said: Sequence[Said], reason: StopReason = StopReason.ANSWERED) -> list[Outcome[Question]]:
    """What a task is shown after each turn of the episode."""
    return [
        outcome_of(said[:count], reason if count == len(said) else None) for count in range(1, len(said) + 1)
    ]  # fmt: skip
