"""Problems with one answer, tools to work it out with, and an exact grader: what GSM8K and PythonMath share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from agent_envs.data.hub import names_file
from agent_envs.data.math_problems import MathProblem
from agent_envs.errors import ConfigError, DataError
from agent_envs.formats.base import ParsedTurn
from agent_envs.rewards import COMMON_PARTS, Part, Reward, RewardCatalogue, common_metrics, judge_part
from agent_envs.tasks.base import Decision, OracleTurn, Outcome, Toolbox, answer_ends
from agent_envs.tools.base import Tool
from agent_envs.types import Turn

ANSWER_REQUEST = "This is your last turn: write your final answer {answer_form}."
NO_ACTION_HINT = "Your turn had neither a tool call nor an answer. Call a tool, or write {answer_example}."
NO_ANSWER_HINT = "Your turn had no answer. Write {answer_example}."

Grade: TypeAlias = Callable[[str | None, str], float]
Problems: TypeAlias = tuple[MathProblem, ...]


def math_rewards(name: str, summary: str, grade: Grade) -> RewardCatalogue[MathProblem]:
    """The rewards of a task whose grader is ``grade(answer, gold)``.

    Args:
        name: of the part that is the grade; ``em`` means the same.
        summary: what it measures.
        grade: 1 for a right answer, else 0.
    """

    def value(outcome: Outcome[MathProblem]) -> float:
        return grade(outcome.turns[-1].answer, outcome.item.answer)

    return RewardCatalogue(
        (
            *COMMON_PARTS,
            Part(name, summary, "end", lambda: value),
            judge_part(lambda item: (item.question, item.answers)),
        ),
        # The answer's grade if the format is right, else format - 1. Source: Agent-R1 (arXiv 2511.14460).
        named={"em": name, "paper": f"{name}*answer_format*tool_format + format - 1"},
    )


@dataclass(frozen=True, slots=True)
class JoinedTools:
    """The tools of several boxes, as one box."""

    boxes: tuple[Toolbox, ...]

    @property
    def tools(self) -> tuple[Tool, ...]:
        """All tools, in the order of the boxes."""
        return tuple(tool for box in self.boxes for tool in box.tools)

    def fork(self) -> JoinedTools:
        """Forks of all boxes."""
        return JoinedTools(tuple(box.fork() for box in self.boxes))

    def close(self) -> None:
        """Closes all boxes."""
        for box in self.boxes:
            box.close()


@dataclass(frozen=True, slots=True)
class MathRules:
    """What makes one task of problems differ from another.

    Attributes:
        system_prompt: what the system message says.
        open_tools: the tools of a new episode. It is not told which problem, so no tool can know the answer.
        grade: 1 for a right answer, else 0.
        reward: of ``math_rewards``.
        work: the tool calls of an oracle, a turn each; it answers behind them.
        has_tools: False where the policy has nothing but its own words.
    """

    system_prompt: str
    open_tools: Callable[[], Toolbox]
    grade: Grade
    reward: Reward[MathProblem]
    work: Callable[[MathProblem], Sequence[OracleTurn]]
    has_tools: bool = True


class MathTask:
    """Problems, tools, and a judgement by the answer's grade and the format."""

    def __init__(self, problems: Sequence[MathProblem], rules: MathRules) -> None:
        """Takes loaded problems.

        Raises:
            DataError: there is no problem, or two share an id.
        """
        self._problems = tuple(problems)
        self._index = {problem.task_id: index for index, problem in enumerate(self._problems)}
        if not self._problems or len(self._index) != len(self._problems):
            raise DataError(
                f"expected at least one problem, each with its own id; got {len(self._problems)} problems with "
                f"{len(self._index)} ids"
            )
        self._rules = rules
        self._ids = tuple(self._index)
        self.system_prompt = rules.system_prompt
        self.may_block = rules.reward.may_block

    def __len__(self) -> int:
        return len(self._problems)

    def item(self, index: int) -> MathProblem:
        """The problem of that index."""
        return self._problems[index]

    def task_ids(self) -> Sequence[str]:
        """The problems' ids, in order."""
        return self._ids

    def index_of(self, task_id: str) -> int:
        """The index of a problem by its id."""
        if not isinstance(task_id, str) or task_id not in self._index:
            raise ConfigError(f"no problem has the id {task_id!r}; the first of {len(self)} is {self._ids[0]!r}")
        return self._index[task_id]

    def user_prompt(self, item: MathProblem) -> str:
        """The question."""
        return item.question

    def begin(self, item: MathProblem) -> Toolbox:
        """The tools of an episode; they are not told the problem."""
        return self._rules.open_tools()

    def decide(self, item: MathProblem, turns: Sequence[Turn], parsed: ParsedTurn) -> Decision:
        """The answer ends the episode."""
        return answer_ends(parsed)

    def answer_request(self) -> str:
        """Said before the last turn."""
        return ANSWER_REQUEST

    def no_action_hint(self) -> str:
        """Said after a turn that did nothing."""
        return NO_ACTION_HINT if self._rules.has_tools else NO_ANSWER_HINT

    def reward(self, outcome: Outcome[MathProblem]) -> float:
        """What the chosen reward gives for the last turn."""
        return self._rules.reward.turn(outcome)

    def metrics(self, outcome: Outcome[MathProblem]) -> dict[str, float]:
        """The answer's grade as ``em``, format, counts, and what each term of the reward earned."""
        failed = outcome.reason is not None and outcome.reason.failed  # then the grader itself may be what failed
        em = 0.0 if failed else self._rules.grade(outcome.turns[-1].answer, outcome.item.answer)
        return {**common_metrics(outcome), "em": em, **self._rules.reward.breakdown(outcome)}

    def oracle(self, item: MathProblem) -> Sequence[OracleTurn]:
        """Works the problem out with the tools, then answers."""
        return [*self._rules.work(item), OracleTurn(answer=item.answer)]


@dataclass(frozen=True, slots=True)
class ProblemSource:
    """Where the problems of a set come from.

    Attributes:
        mini: gives a part of the embedded set.
        parts: its parts, the first one for ``split="mini"``.
        read_file: reads a file.
        read_hub: reads a set on the hub, given its name, configuration (or None) and split.
    """

    mini: Callable[[str], Problems]
    parts: tuple[str, ...]
    read_file: Callable[[str], Problems]
    read_hub: Callable[[str, str | None, str], Problems]

    def check(self, dataset: str | None, split: str) -> None:
        """Refuses a split that a data set does not have.

        Raises:
            ConfigError: the embedded set has no such part, or a split is asked of a file.
        """
        if dataset is None:
            if self._part(split) not in self.parts:
                raise ConfigError(
                    f"split (of the embedded set) is mini or one of {', '.join(f'mini/{p}' for p in self.parts)}, "
                    f"not {split!r}"
                )
        elif split == "mini" and not names_file(dataset):
            raise ConfigError(f'{dataset!r} is a folder, or a set on the hub: say which split, such as split="test"')
        elif split != "mini" and Path(dataset).is_file():
            raise ConfigError(f"the file {dataset!r} has no splits, so split={split!r} means nothing; leave it out")

    def read(self, dataset: str | None, config: str | None, split: str) -> Problems:
        """The problems of a data set and split that ``check`` allows.

        Raises:
            DataError: the data cannot be read.
        """
        if dataset is None:
            return self.mini(self._part(split))
        return self.read_file(dataset) if names_file(dataset) else self.read_hub(dataset, config, split)

    def _part(self, split: str) -> str:
        return self.parts[0] if split == "mini" else split.removeprefix("mini/")
