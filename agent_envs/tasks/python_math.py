"""PythonMath: mathematics by writing programs, the way of ReTool and TIR.

Problems of MATH, AIME, DAPO and their like come by path or from the Hub, under their own licences. The embedded
problems are made up by this project and under its own licence.
"""

from __future__ import annotations

import dataclasses
import functools

from agent_envs.data.math_problems import MathProblem, read_math, read_math_hub
from agent_envs.data.mini_math import mini_math, mini_math_parts
from agent_envs.math_grading import equivalent
from agent_envs.tasks.base import OracleTurn
from agent_envs.tasks.math_task import MathRules, MathTask, Problems, ProblemSource, math_rewards
from agent_envs.tasks.python_box import PYTHON, PythonSettings, open_python
from agent_envs.types import ToolCall

SYSTEM_PROMPT = (
    "Solve the problem with the help of Python: write a program, read what it prints, and go on from there. You may "
    "think between <think> and </think>. Give an exact answer (a number, a fraction, a set or a formula), and nothing "
    "else, {answer_form}."
)


def math_match(answer: str | None, gold: str) -> float:
    """1.0 where the answer equals the gold answer as a mathematical object, else 0.0."""
    return float(equivalent(answer, gold))


PYTHON_MATH_REWARDS = math_rewards(
    "math", "1 where the answer equals the gold answer as a number, set or formula, else 0.", math_match
)


@dataclasses.dataclass(frozen=True, slots=True)
class PythonMathOptions:
    """What ``AgentR1/PythonMath-v0`` takes beside the common options.

    Attributes:
        dataset: None for the embedded problems; a JSON Lines file with "problem" (or "question") and "answer"; or a
            name on the Hugging Face hub, such as "HuggingFaceH4/MATH-500".
        split: of the embedded problems: "mini" or "mini/train", "mini/validation", "mini/test" (or the part's name
            alone); of a set on the hub: its split, such as "test". A file has no splits.
        config: the configuration of a set on the hub, where it has several.
        session: Python keeps its variables from one call to the next.
        timeout_s: seconds that one call of Python may take.
        isolation: of Python: "require" (refuse to start where the machine cannot isolate it) or "best-effort".
        reward: "paper" (the grade if the format is right, else a penalty), "math", or an expression of reward parts.
        system_prompt: instead of the default one; "" for none.
    """

    dataset: str | None = None
    split: str = "mini"
    config: str | None = None
    session: bool = True
    timeout_s: float = 10.0
    isolation: str = "require"
    reward: str = "paper"
    system_prompt: str = SYSTEM_PROMPT

    def __post_init__(self) -> None:
        """Checks the choices.

        Raises:
            ConfigError: a value is not allowed, or two contradict each other.
        """
        PYTHON_MATH_REWARDS.get(self.reward)
        _SOURCE.check(self.dataset, self.split)
        self.python()

    def python(self) -> PythonSettings:
        """How Python runs.

        Raises:
            ConfigError: a value is out of range.
        """
        return PythonSettings(self.session, self.timeout_s, self.isolation)


_SOURCE = ProblemSource(mini_math, mini_math_parts(), read_math, read_math_hub)


def load_python_math(options: PythonMathOptions) -> MathTask:
    """The task of these options; data is loaded once per process and shared.

    Raises:
        DataError: the data cannot be read.
        ConfigError: Python cannot be isolated here.
    """
    rules = MathRules(
        system_prompt=options.system_prompt,
        open_tools=open_python(options.python()),
        grade=math_match,
        reward=PYTHON_MATH_REWARDS.get(options.reward),
        work=_work,
    )
    return MathTask(_load(options.dataset, options.config, options.split), rules)


@functools.lru_cache(maxsize=8)
def _load(dataset: str | None, config: str | None, split: str) -> Problems:
    return _SOURCE.read(dataset, config, split)


def _work(item: MathProblem) -> list[OracleTurn]:
    """The problem's program, if it has one."""
    return [OracleTurn(calls=(ToolCall(PYTHON, {"code": item.program}),))] if item.program else []
