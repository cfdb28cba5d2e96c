"""GSM8K: word problems of two to eight steps of arithmetic, with a calculator, a Python tool, both or neither.

Source of the data set: Cobbe et al. 2021, arXiv 2110.14168; real data MIT. The embedded problems are made up by this
project and under its own licence.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable

from agent_envs.data.gsm8k import read_gsm8k, read_gsm8k_hub, worked_steps
from agent_envs.data.math_problems import MathProblem
from agent_envs.data.mini_gsm8k import mini_gsm8k, mini_gsm8k_parts
from agent_envs.errors import ConfigError
from agent_envs.numbers import numeric_match
from agent_envs.tasks.base import OracleTurn, SharedTools, Toolbox
from agent_envs.tasks.math_task import JoinedTools, MathRules, MathTask, Problems, ProblemSource, math_rewards
from agent_envs.tasks.python_box import PYTHON, PythonSettings, open_python
from agent_envs.tools import TOOLS, Tool
from agent_envs.types import ToolCall

CALCULATOR = "calculator"
TOOL_NAMES = (CALCULATOR, PYTHON)

_WITH_TOOLS = (
    "Solve the word problem. Work step by step, and let {tools} do the arithmetic. You may think between <think> and "
    "</think>. The answer is one number: when you know it, write it {answer_form}, without a sentence around it."
)
_WITHOUT_TOOLS = (
    "Solve the word problem. Work step by step; you may think between <think> and </think>. The answer is one number: "
    "when you know it, write it {answer_form}, without a sentence around it."
)
_TOOL_WORDS = {CALCULATOR: "the calculator", PYTHON: "Python"}

GSM8K_REWARDS = math_rewards(
    "numeric", "1 where the one number in the answer equals the gold number exactly, else 0.", numeric_match
)


@dataclasses.dataclass(frozen=True, slots=True)
class Gsm8kOptions:
    """What ``AgentR1/GSM8K-v0`` takes beside the common options.

    Attributes:
        dataset: None for the embedded problems; a file in the official format; or a name on the Hugging Face hub, such
            as "openai/gsm8k".
        split: of the embedded problems: "mini" or "mini/train", "mini/validation", "mini/test" (or the part's name
            alone); of a set on the hub: its split, such as "test". A file has no splits.
        config: the configuration of a set on the hub.
        tools: "calculator", "python", "calculator,python" or "none".
        session: Python keeps its variables from one call to the next.
        timeout_s: seconds that one call of Python may take.
        isolation: of Python: "require" (refuse to start where the machine cannot isolate it) or "best-effort".
        reward: "paper" (the grade if the format is right, else a penalty), "numeric", or an expression of reward parts.
        system_prompt: instead of the default one, which depends on the tools; "" for none.
    """

    dataset: str | None = None
    split: str = "mini"
    config: str = "main"
    tools: str = CALCULATOR
    session: bool = False
    timeout_s: float = 10.0
    isolation: str = "require"
    reward: str = "paper"
    system_prompt: str | None = None

    def __post_init__(self) -> None:
        """Checks the choices.

        Raises:
            ConfigError: a value is not allowed, or two contradict each other.
        """
        GSM8K_REWARDS.get(self.reward)
        _SOURCE.check(self.dataset, self.split)
        self.python()
        known = set(TOOL_NAMES)
        if len(set(self.tool_names)) != len(self.tool_names) or not known.issuperset(self.tool_names):
            raise ConfigError(f'tools is "none", or some of {", ".join(TOOL_NAMES)} with commas, not {self.tools!r}')

    @property
    def tool_names(self) -> tuple[str, ...]:
        """The tools, in the order given."""
        return () if self.tools == "none" else tuple(name.strip() for name in self.tools.split(","))

    def python(self) -> PythonSettings:
        """How Python runs.

        Raises:
            ConfigError: a value is out of range.
        """
        return PythonSettings(self.session, self.timeout_s, self.isolation)


_SOURCE = ProblemSource(
    mini_gsm8k,
    mini_gsm8k_parts(),
    read_gsm8k,
    lambda name, config, split: read_gsm8k_hub(name, config or "main", split),
)


def load_gsm8k(options: Gsm8kOptions) -> MathTask:
    """The task of these options; data is loaded once per process and shared.

    Raises:
        DataError: the data cannot be read.
        ConfigError: Python is asked for and cannot be isolated here.
    """
    problems = _load(options.dataset, options.config, options.split)
    openers = [_OPENERS[name](options) for name in options.tool_names]
    rules = MathRules(
        system_prompt=_system_prompt(options),
        open_tools=lambda: JoinedTools(tuple(opener() for opener in openers)),
        grade=numeric_match,
        reward=GSM8K_REWARDS.get(options.reward),
        work=functools.partial(_work, options.tool_names),
        has_tools=bool(openers),
    )
    return MathTask(problems, rules)


def _system_prompt(options: Gsm8kOptions) -> str:
    if options.system_prompt is not None:
        return options.system_prompt
    if not options.tool_names:
        return _WITHOUT_TOOLS
    return _WITH_TOOLS.replace("{tools}", " or ".join(_TOOL_WORDS[name] for name in options.tool_names))


@functools.lru_cache(maxsize=8)
def _load(dataset: str | None, config: str, split: str) -> Problems:
    return _SOURCE.read(dataset, config, split)


@functools.cache
def _calculator() -> Tool:
    """One tool for all environments, so that they share what is made from its schema."""
    return TOOLS.get("calculator")()


_OPENERS: dict[str, Callable[[Gsm8kOptions], Callable[[], Toolbox]]] = {
    CALCULATOR: lambda options: lambda: SharedTools((_calculator(),)),
    PYTHON: lambda options: open_python(options.python()),
}


def _work(tool_names: tuple[str, ...], item: MathProblem) -> list[OracleTurn]:
    """The rationale's annotated steps, by the calculator one at a time or by Python in one go."""
    expressions = [expression for expression, _ in worked_steps(item.solution)]
    if CALCULATOR in tool_names:
        return [OracleTurn(calls=(ToolCall(CALCULATOR, {"expression": expression}),)) for expression in expressions]
    if PYTHON in tool_names and expressions:
        code = "\n".join(f"print({expression})" for expression in expressions)
        return [OracleTurn(calls=(ToolCall(PYTHON, {"code": code}),))]
    return []
