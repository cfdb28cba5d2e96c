"""BFCL: function calls and stateful tool use, graded by the Berkeley Function-Calling Leaderboard's own checkers.

Source: Patil et al., "The Berkeley Function Calling Leaderboard (BFCL)", ICML 2025. Data, APIs and checkers are those
of the PyPI package bfcl-eval (Apache-2.0), which is imported, not copied.

Deviations from the leaderboard's own runs:
1. The prompts are this project's, and say nothing of the language or of what a function returns.
2. A call that cannot be read comes back as an error which the policy can mend; the leaderboard goes on to the user's
   next turn. The readable calls beside it are run, and count.
3. An episode that ends before the user's last turn is answered counts as wrong.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from agent_envs.bfcl.answers import right_calls, right_conversation
from agent_envs.bfcl.apis import ApiToolbox, described_tools
from agent_envs.bfcl.grading import Verdict, grade_calls, grade_conversation
from agent_envs.bfcl.records import CATEGORIES, BfclItem, read_category
from agent_envs.errors import ConfigError
from agent_envs.formats.base import ParsedTurn
from agent_envs.options import require_choice
from agent_envs.rewards import COMMON_PARTS, Reward, RewardCatalogue, end_part, turn_part
from agent_envs.tasks.base import Decision, OracleTurn, Outcome, SharedTools, Toolbox
from agent_envs.types import EventKind, StopReason, ToolCall, Turn

MAX_STEPS = 20  # turns with calls that the leaderboard lets a policy take for one turn of the user; one more ends it

SINGLE_TURN_PROMPT = (
    "Do what the user asks by calling the functions that serve. Write all the calls that are needed in one turn, with "
    "values taken from the request; leave out optional arguments that it says nothing about."
)
MULTI_TURN_PROMPT = (
    "Do what the user asks by calling functions. You may call several in one turn, and call again after you have seen "
    "the results. When the request is fulfilled, reply in plain words without a call; the user then goes on."
)
NO_ACTION_HINT = "Your turn had no function call. Call a function."
LAST_WORDS = "Done."

_ERRORS = {  # how the package's names of errors begin, and the metric that counts them
    "ast_decoder": "error_unreadable",
    "simple_function_checker:wrong_count": "error_count",
    "multiple_function_checker:wrong_count": "error_count",
    "parallel_function_checker_no_order:wrong_count": "error_count",
    "simple_function_checker:wrong_func_name": "error_function",
    "multi_turn:instance_state_mismatch": "error_state",
    "multi_turn:execution_response_mismatch": "error_results",
    "multi_turn:empty_turn_model_response": "error_no_call",
    "multi_turn:force_terminated": "error_unfinished",
}
_SINGLE_ERRORS = ("error_unreadable", "error_count", "error_function", "error_arguments", "error_unfinished")
_MULTI_ERRORS = ("error_state", "error_results", "error_no_call", "error_unfinished", "error_other")
_UNFINISHED = Verdict(False, "multi_turn:force_terminated")


@dataclasses.dataclass(frozen=True, slots=True)
class BfclOptions:
    """What ``AgentR1/BFCL-v0`` takes beside the common options.

    Attributes:
        category: "simple" (one function, one call), "multiple" (one call, the right function among several),
            "parallel" (several calls) or "multi_turn_base" (a conversation with stateful APIs).
        reward: "accuracy" (1 for right by the leaderboard's checker, else 0), "progress" (the share of the user's turns
            up to the first that went wrong, paid as they are finished), "paper" (accuracy, and -1 where a call was
            malformed), or an expression of reward parts, such as "accuracy - 0.01*turns".
        system_prompt: instead of the default one; "" for none.
    """

    category: str = "simple"
    reward: str = "accuracy"
    system_prompt: str | None = None

    def __post_init__(self) -> None:
        """Checks the choices.

        Raises:
            ConfigError: a value is not allowed.
        """
        require_choice("category", self.category, tuple(CATEGORIES))
        BFCL_REWARDS.get(self.reward)


def load_bfcl(options: BfclOptions) -> BfclTask:
    """The task of these options; the data are read once per process and shared.

    Raises:
        MissingExtraError: bfcl-eval is not installed.
        DataError: its data are not as expected.
    """
    items = read_category(options.category)
    default = MULTI_TURN_PROMPT if items[0].multi_turn else SINGLE_TURN_PROMPT
    prompt = default if options.system_prompt is None else options.system_prompt
    return BfclTask(items, BFCL_REWARDS.get(options.reward), prompt)


class BfclTask:
    """The tests of one category."""

    def __init__(self, items: Sequence[BfclItem], reward: Reward[BfclItem], system_prompt: str) -> None:
        """Takes items of one category."""
        self._items = tuple(items)
        self._ids = tuple(item.task_id for item in items)
        self._index = {task_id: index for index, task_id in enumerate(self._ids)}
        self._reward = reward
        self.system_prompt = system_prompt

    def __len__(self) -> int:
        return len(self._items)

    def item(self, index: int) -> BfclItem:
        """The test of that index."""
        return self._items[index]

    def task_ids(self) -> Sequence[str]:
        """The package's ids, in its order."""
        return self._ids

    def index_of(self, task_id: str) -> int:
        """The index of a test by its id."""
        if not isinstance(task_id, str) or task_id not in self._index:
            raise ConfigError(f"no test has the id {task_id!r}; the first of {len(self)} is {self._ids[0]!r}")
        return self._index[task_id]

    def user_prompt(self, item: BfclItem) -> str:
        """What the user says first."""
        return item.user_turns[0]

    def begin(self, item: BfclItem) -> Toolbox:
        """Fresh simulated APIs in the item's state; for single-turn tests, tools that only describe themselves."""
        return ApiToolbox(item) if item.multi_turn else SharedTools(described_tools(item))

    def decide(self, item: BfclItem, turns: Sequence[Turn], parsed: ParsedTurn) -> Decision:
        """One turn is all of a single-turn test; in a conversation a turn without calls hands over to the user."""
        if not item.multi_turn:
            return Decision(over=True)
        said, steps = _progress(turns)
        if parsed.calls:
            return Decision(over=steps >= MAX_STEPS)
        if said + 1 == len(item.user_turns):
            return Decision(over=True)
        return Decision(message=item.user_turns[said + 1])

    def answer_request(self) -> str:
        """Nothing: no answer is asked for."""
        return ""

    def no_action_hint(self) -> str:
        """Said where nothing else is: a turn without calls ends, or hands over."""
        return NO_ACTION_HINT

    def reward(self, outcome: Outcome[BfclItem]) -> float:
        """The chosen reward."""
        return self._reward.turn(outcome)

    def metrics(self, outcome: Outcome[BfclItem]) -> dict[str, float]:
        """Accuracy (also as ``em``), what was wrong by kind (at most one of the errors is 1), and counts."""
        verdict = judge(outcome)
        errors = _MULTI_ERRORS if outcome.item.multi_turn else _SINGLE_ERRORS
        kinds = [event.kind for event in outcome.events]
        return {
            "reward": sum(turn.reward for turn in outcome.turns),
            "em": float(verdict.valid),
            "accuracy": float(verdict.valid),
            **{name: float(name == _error_metric(verdict, outcome.item)) for name in errors},
            "turns": float(len(outcome.turns)),
            "tool_calls": float(kinds.count(EventKind.CALL)),
            "malformed_calls": float(sum(kind.is_malformed for kind in kinds)),
            **self._reward.breakdown(outcome),
        }

    def oracle(self, item: BfclItem) -> Sequence[OracleTurn]:
        """The calls of the package's answer: all in one turn, or in a conversation one a turn, then plain words."""
        if not item.multi_turn:
            return [OracleTurn(calls=right_calls(item))]
        script: list[OracleTurn] = []
        for calls in right_conversation(item):
            script += [OracleTurn(calls=(call,)) for call in calls]
            script.append(OracleTurn(text=LAST_WORDS))
        return script


def judge(outcome: Outcome[BfclItem]) -> Verdict:
    """The verdict of the package's checker on an episode that has ended."""
    item = outcome.item
    if outcome.reason is not StopReason.ANSWERED:
        return _UNFINISHED
    if not item.multi_turn:
        return grade_calls(item, outcome.turns[0].calls)
    user_turns = _by_user_turn(outcome.turns)
    return grade_conversation(item, user_turns) if len(user_turns) == len(item.user_turns) else _UNFINISHED


def accuracy(outcome: Outcome[BfclItem]) -> float:
    """1 where the leaderboard's checker finds nothing wrong, else 0."""
    return float(judge(outcome).valid)


def progress(outcome: Outcome[BfclItem]) -> float:
    """The share of the user's turns up to the first that went wrong or is not finished; accuracy with one turn."""
    item = outcome.item
    if not item.multi_turn or judge(outcome).valid:
        return accuracy(outcome)
    # Other ends may have cut the last turn's words.
    whole = outcome.reason in (None, StopReason.ANSWERED, StopReason.MAX_TURNS)
    turns = outcome.turns if whole else outcome.turns[:-1]
    finished = _by_user_turn(turns)[: _progress(turns)[0]]
    right = next((n for n in range(len(finished), 0, -1) if grade_conversation(item, finished[:n]).valid), 0)
    return right / len(item.user_turns)


BFCL_REWARDS: RewardCatalogue[BfclItem] = RewardCatalogue(
    (*COMMON_PARTS, end_part(accuracy), turn_part(progress)),
    # Accuracy if every call is well formed, else -1: the form of arXiv 2511.14460's reward, without an answer's format.
    named={"paper": "accuracy*tool_format + tool_format - 1"},
)


def _progress(turns: Sequence[Turn]) -> tuple[int, int]:
    """How many of the user's turns have been answered, and how many turns with calls the present one has."""
    said = steps = 0
    for turn in turns:
        said, steps = (said, steps + 1) if turn.calls else (said + 1, 0)
    return said, steps


def _by_user_turn(turns: Sequence[Turn]) -> list[list[tuple[ToolCall, ...]]]:
    """The calls of each turn, by the user's turns; the last of these may have been broken off."""
    user_turns: list[list[tuple[ToolCall, ...]]] = [[]]
    for turn in turns:
        if turn.calls:
            user_turns[-1].append(turn.calls)
        else:
            user_turns.append([])
    return user_turns if user_turns[-1] else user_turns[:-1]


def _error_metric(verdict: Verdict, item: BfclItem) -> str:
    if verdict.valid:
        return ""
    named = next((metric for prefix, metric in _ERRORS.items() if verdict.error_type.startswith(prefix)), "")
    return named or ("error_other" if item.multi_turn else "error_arguments")
