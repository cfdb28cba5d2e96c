"""Multi-hop question answering with a search tool: what HotpotQA and its like share."""

from __future__ import annotations

from collections.abc import Sequence

from agent_envs import scoring
from agent_envs.data.records import Question
from agent_envs.errors import ConfigError, DataError
from agent_envs.rewards import QaReward, format_ok
from agent_envs.formats.base import ParsedTurn
from agent_envs.tasks.base import Decision, OracleTurn, Outcome, SharedTools, answer_ends
from agent_envs.tools.base import Tool
from agent_envs.types import EventKind, ToolCall, Turn

SYSTEM_PROMPT = (
    "Answer the question. Facts come from the search tool: look up one thing at a time, read what comes back, and "
    "search again with what you have learned. You may think between <think> and </think>. When you know the answer, "
    "write it {answer_form}, as short as possible."
)
ANSWER_REQUEST = "This is your last turn: write your final answer {answer_form}."
NO_ACTION_HINT = "Your turn had neither a tool call nor an answer. Call a tool, or write {answer_example}."


class QaTask:
    """Questions, a search tool, and a judgement by EM, F1 and format."""

    def __init__(self, questions: Sequence[Question], tool: Tool, reward: QaReward, system_prompt: str) -> None:
        """Takes loaded questions and a tool over their corpus.

        Raises:
            DataError: there is no question, or two share an id.
        """
        if not questions:
            raise DataError("the data set has no questions: expected at least one")
        self._questions = tuple(questions)
        self._ids = tuple(question.task_id for question in questions)
        self._index = {task_id: index for index, task_id in enumerate(self._ids)}
        if len(self._index) != len(self._ids):
            raise DataError(f"{len(self._ids) - len(self._index)} questions share an id with another")
        self._reward = reward
        self.system_prompt = system_prompt
        self.tools = (tool,)

    def __len__(self) -> int:
        return len(self._questions)

    def item(self, index: int) -> Question:
        """The question of that index."""
        return self._questions[index]

    def task_ids(self) -> Sequence[str]:
        """The questions' ids, in order."""
        return self._ids

    def index_of(self, task_id: str) -> int:
        """The index of a question by its id."""
        if not isinstance(task_id, str) or task_id not in self._index:
            raise ConfigError(f"no question has the id {task_id!r}; the first of {len(self)} is {self._ids[0]!r}")
        return self._index[task_id]

    def user_prompt(self, item: Question) -> str:
        """The question."""
        return item.question

    def begin(self, item: Question) -> SharedTools:
        """The search tool; it keeps nothing."""
        return SharedTools(self.tools)

    def decide(self, item: Question, turns: Sequence[Turn], parsed: ParsedTurn) -> Decision:
        """The answer ends the episode."""
        return answer_ends(parsed)

    def answer_request(self) -> str:
        """Said before the last turn."""
        return ANSWER_REQUEST

    def no_action_hint(self) -> str:
        """Said after a turn that did nothing."""
        return NO_ACTION_HINT

    def reward(self, outcome: Outcome[Question]) -> float:
        """The chosen reward at the end of the episode, 0 before."""
        return 0.0 if outcome.reason is None else self._reward(outcome)

    def metrics(self, outcome: Outcome[Question]) -> dict[str, float]:
        """EM, F1, recall of the gold paragraphs' titles, format, and counts."""
        answer_ok, tools_ok = format_ok(outcome)
        answer, gold = outcome.turns[-1].answer, outcome.item.answers
        found = [title for turn in outcome.turns for result in turn.results for title in result.data.get("titles", ())]
        kinds = [event.kind for event in outcome.events]
        return {
            "reward": sum(turn.reward for turn in outcome.turns),
            "em": scoring.exact_match(answer, gold),
            "f1": scoring.f1(answer, gold),
            "support_recall": scoring.support_recall(found, outcome.item.gold_titles),
            "format": (answer_ok + tools_ok) / 2,
            "answered": float(answer is not None),
            "turns": float(len(outcome.turns)),
            "tool_calls": float(kinds.count(EventKind.CALL)),
            "malformed_calls": float(sum(kind.is_malformed for kind in kinds)),
            "no_action_turns": float(kinds.count(EventKind.NO_ACTION)),
        }

    def oracle(self, item: Question) -> Sequence[OracleTurn]:
        """Looks up every gold title, then answers."""
        name = self.tools[0].name
        lookups = [OracleTurn(calls=(ToolCall(name, {"query": title}),)) for title in item.gold_titles]
        return [*lookups, OracleTurn(answer=item.answers[0])]
