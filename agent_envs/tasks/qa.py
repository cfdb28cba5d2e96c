"""Multi-hop question answering with a search tool: what HotpotQA and its like share."""

from __future__ import annotations

from collections.abc import Sequence

from agent_envs.data.records import Question
from agent_envs.errors import ConfigError, DataError
from agent_envs.formats.base import ParsedTurn
from agent_envs.rewards import Reward, common_metrics
from agent_envs.rewards.qa import em, f1, support_recall
from agent_envs.tasks.base import Decision, OracleTurn, Outcome, SharedTools, answer_ends
from agent_envs.tools.base import Tool
from agent_envs.types import ToolCall, Turn

SYSTEM_PROMPT = (
    "Answer the question. Facts come from the search tool: look up one thing at a time, read what comes back, and "
    "search again with what you have learned. You may think between <think> and </think>. When you know the answer, "
    "write it {answer_form}, as short as possible."
)
ANSWER_REQUEST = "This is your last turn: write your final answer {answer_form}."
NO_ACTION_HINT = "Your turn had neither a tool call nor an answer. Call a tool, or write {answer_example}."


class QaTask:
    """Questions, a search tool, and a judgement by EM, F1 and format."""

    def __init__(self, questions: Sequence[Question], tool: Tool, reward: Reward[Question], system_prompt: str) -> None:
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
        self.may_block = reward.may_block
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
        """What the chosen reward gives for the last turn."""
        return self._reward.turn(outcome)

    def metrics(self, outcome: Outcome[Question]) -> dict[str, float]:
        """EM, F1, recall of the gold paragraphs, format, counts, and what each term of the reward earned."""
        scores = {"em": em(outcome), "f1": f1(outcome), "support_recall": support_recall(outcome)}
        common = common_metrics(outcome)
        return {"reward": common["reward"], **scores, **common, **self._reward.breakdown(outcome)}

    def oracle(self, item: Question) -> Sequence[OracleTurn]:
        """Looks up every gold paragraph, then answers."""
        name = self.tools[0].name
        lookups = [OracleTurn(calls=(ToolCall(name, {"query": query}),)) for query in item.gold_queries]
        return [*lookups, OracleTurn(answer=item.answers[0])]
