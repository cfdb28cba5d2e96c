"""A task of one's own: typed Python functions, items, and a function that scores.

``docs/tool_use.md`` shows it whole; ``agent_envs/tasks/tool_use_example.py`` is the task that is played where none is
given.
"""

from __future__ import annotations

import copy
import dataclasses
import functools
import re
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any, TypeAlias

from agent_envs import scoring
from agent_envs.data.given_items import Item, ItemSource, read_items
from agent_envs.errors import ConfigError, DataError, ToolUseError
from agent_envs.formats.base import ParsedTurn
from agent_envs.named_functions import load_function, require_arguments
from agent_envs.tasks.base import Decision, OracleTurn, Outcome, SharedTools, Toolbox, answer_ends
from agent_envs.tools.base import Tool
from agent_envs.tools.objects import ObjectTools, method_tools, text_tool
from agent_envs.types import EventKind, ToolCall, Turn

Tools: TypeAlias = "Sequence[Callable[..., Any] | Tool] | Callable[[dict[str, Any]], Any]"
Score: TypeAlias = Callable[[str, Item, Sequence[Turn]], "float | bool"]

EXAMPLE = "agent_envs.tasks.tool_use_example:make_task"
_DIGITS = r"(?:\d{1,3}(?:,\d{3})+(?!\d)|\d+)(?:\.\d*)?|\.\d+"
_NUMBER = re.compile(rf"(?:(?<!\w)[+-])?(?:{_DIGITS})(?:[eE][+-]?\d{{1,3}}(?!\w))?")
_MAX_DIGITS = 1_000
SECRETS = ("answer", "oracle", "secret")  # fields of an item that its tools never see

SYSTEM_PROMPT = (
    "Do what the user asks with the tools. Read what comes back before you go on. You may think between <think> and "
    "</think>. When you are done, write your answer {answer_form}, as short as possible."
)
ANSWER_REQUEST = "This is your last turn: write your final answer {answer_form}."
NO_ACTION_HINT = "Your turn had neither a tool call nor an answer. Call a tool, or write {answer_example}."


@dataclasses.dataclass(frozen=True, slots=True)
class ToolUseOptions:
    """What ``AgentR1/ToolUse-v0`` takes beside the common options.

    Attributes:
        factory: "module:function" or "folder/file.py:function", which gives a ``ToolUseTask``; a small example task
            where neither this nor tools and items are given.
        split: handed to the factory, as its only argument; the example knows "train", "validation" and "test".
        tools: typed functions in a list, or a class whose public methods are the tools of one episode.
        items: mappings with "question" and, for the default score, "answer": a list, a path of JSON Lines, a generator
            function, or with num_items a function of the index.
        score: a function of the answer, the item and the turns that gives a number in [0, 1]; without it the answer
            must match the item's "answer".
        num_items: how many items there are, where items is a function of the index.
        system_prompt: instead of the task's own; "" for none.
    """

    factory: str | None = None
    split: str | None = None
    tools: Any = dataclasses.field(default=None, metadata={"any": True})
    items: Any = dataclasses.field(default=None, metadata={"any": True})
    score: Any = dataclasses.field(default=None, metadata={"any": True})
    num_items: int = 0
    system_prompt: str | None = None

    def __post_init__(self) -> None:
        """Checks that the options go together.

        Raises:
            ConfigError: they contradict each other, or one needs another.
        """
        given = [name for name in ("tools", "items", "score") if getattr(self, name) is not None]
        if given and (self.factory is not None or self.split is not None):
            raise ConfigError(f"factory and split name a whole task; leave them out, or leave out {', '.join(given)}")
        if given and (self.tools is None or self.items is None):
            raise ConfigError(f"a task needs both tools and items; {', '.join(given)} came alone")


def load_tool_use(options: ToolUseOptions) -> ToolUseTask:
    """The task of these options; one from a factory is made once per process and shared.

    Raises:
        ConfigError: the factory cannot be found or gives something else, or the task is not as expected.
        DataError: an item is not as expected.
    """
    if options.tools is not None:
        task = ToolUseTask(options.tools, options.items, options.score, num_items=options.num_items)
    else:
        task = _made(options.factory or EXAMPLE, options.split)
    return task if options.system_prompt is None else task.with_system_prompt(options.system_prompt)


@functools.lru_cache(maxsize=16)
def _made(factory: str, split: str | None) -> ToolUseTask:
    function = load_function(factory, "factory")
    task = function() if split is None else function(split)
    if not isinstance(task, ToolUseTask):
        raise ConfigError(f"factory: {factory!r} gave {type(task).__name__}; expected a ToolUseTask")
    return task


def match_answer(answer: str, item: Item, turns: Sequence[Turn]) -> float:
    """1.0 where the answer is the item's: the same number, or the same words but for case, articles and punctuation.

    Numbers are compared exactly, also those among words: "3.5 km" is neither "35 km" nor "-3.5 km".

    The item's "answer" may be a list of all that is accepted.

    Raises:
        DataError: the item has no "answer".
    """
    return float(any(_matches(answer, one) for one in _accepted(item)))


class ToolUseTask:
    """Items, tools and a score, as a task that environments play.

    Episodes end with the policy's answer. The score is the reward, at the end.
    """

    def __init__(
        self,
        tools: Tools,
        items: ItemSource,
        score: Score | None = None,
        *,
        system_prompt: str = SYSTEM_PROMPT,
        num_items: int = 0,
    ) -> None:
        """Reads tools and items.

        Args:
            tools: typed functions (or ``Tool`` objects) in a list, shared by all episodes; or a class, or another
                callable, that takes the item (a copy, without "answer", "oracle" and "secret") and gives an object
                whose public methods are the tools of one episode. Forks of an episode copy the object deeply.
            items: see ``read_items``. Beside "question", "answer" and "oracle" they hold what the tools need, and under
                "secret" what only the score may know. An "id" names the item; otherwise its index does.
            score: takes the answer ("" where none was given), the item and the turns; gives a number in [0, 1]. By
                default ``match_answer``.
            system_prompt: what the policy is told first; "" for nothing.
            num_items: with ``items`` as a function of the index, how many there are.

        Raises:
            ConfigError: an argument is not as expected.
            DataError: there is no item, one is not as expected, or two share an id.
            TypeError: a function has a parameter that no schema can describe.
        """
        self._items = read_items(items, num_items)
        self._ids = _ids_of(self._items)
        self._index = {task_id: index for index, task_id in enumerate(self._ids)}
        if len(self._index) != len(self._ids):
            raise DataError(f"{len(self._ids) - len(self._index)} items share an id with another")
        self._score = match_answer if score is None else score
        require_arguments(self._score, "score", "the answer", "the item", "the turns")
        if score is None:
            _check_answers(self._items)
        self._shared = _shared_tools(tools)
        self._make_tools = tools
        self._templates: dict[type[Any], tuple[Tool, ...]] = {}
        self.system_prompt = system_prompt

    def with_system_prompt(self, text: str) -> ToolUseTask:
        """The same task with another system prompt."""
        task = copy.copy(self)
        task.system_prompt = text
        return task

    def __len__(self) -> int:
        return len(self._items)

    def item(self, index: int) -> Item:
        """The item of that index."""
        return self._items[index]

    def task_ids(self) -> Sequence[str]:
        """The items' ids, in order."""
        return self._ids

    def index_of(self, task_id: str) -> int:
        """The index of an item by its id."""
        if not isinstance(task_id, str) or task_id not in self._index:
            raise ConfigError(f"no item has the id {task_id!r}; the first of {len(self)} is {self._ids[0]!r}")
        return self._index[task_id]

    def user_prompt(self, item: Item) -> str:
        """The question."""
        return str(item["question"])

    def begin(self, item: Item) -> Toolbox:
        """The shared functions, or a new object for this episode."""
        if self._shared is not None:
            return self._shared
        assert callable(self._make_tools)
        # A copy: what tools do to their item must not reach the next episode.
        known = copy.deepcopy({key: value for key, value in item.items() if key not in SECRETS})
        try:
            instance = self._make_tools(known)
        except (TypeError, ToolUseError) as error:  # most likely one tool that was meant to be in a list
            raise ConfigError(
                f"tools: {self._make_tools!r} was called with an item, to make the object whose methods are the tools, "
                f"and raised {type(error).__name__}: {error}. If it is a tool itself, give a list: tools=[...]"
            ) from error
        if type(instance) not in self._templates:
            self._templates[type(instance)] = method_tools(instance)
        return ObjectTools(instance, self._templates[type(instance)])

    def decide(self, item: Item, turns: Sequence[Turn], parsed: ParsedTurn) -> Decision:
        """The answer ends the episode."""
        return answer_ends(parsed)

    def answer_request(self) -> str:
        """Said before the last turn."""
        return ANSWER_REQUEST

    def no_action_hint(self) -> str:
        """Said after a turn that did nothing."""
        return NO_ACTION_HINT

    def reward(self, outcome: Outcome[Item]) -> float:
        """The score at the end of the episode, 0 before."""
        if outcome.reason is None:
            return 0.0
        score = self._score(outcome.turns[-1].answer or "", outcome.item, outcome.turns)
        if not isinstance(score, bool | int | float) or not 0.0 <= score <= 1.0:
            raise ConfigError(
                f"the score of {outcome.item['question']!r:.60} is {score!r}; expected a number in [0, 1]"
            )
        return float(score)

    def metrics(self, outcome: Outcome[Item]) -> dict[str, float]:
        """The score, ``em`` (1 where the score is), and counts."""
        kinds = [event.kind for event in outcome.events]
        return {
            "reward": sum(turn.reward for turn in outcome.turns),
            "em": float(outcome.turns[-1].reward == 1.0),
            "score": outcome.turns[-1].reward,
            "answered": float(outcome.turns[-1].answer is not None),
            "turns": float(len(outcome.turns)),
            "tool_calls": float(kinds.count(EventKind.CALL)),
            "tool_errors": float(kinds.count(EventKind.TOOL_ERROR)),
            "malformed_calls": float(sum(kind.is_malformed for kind in kinds)),
            "no_action_turns": float(kinds.count(EventKind.NO_ACTION)),
        }

    def oracle(self, item: Item) -> Sequence[OracleTurn]:
        """The turns of the item's "oracle" (a call, or a list of calls, each), then its "answer".

        Raises:
            DataError: the item has neither.
        """
        if "oracle" not in item and "answer" not in item:
            raise DataError(f'the item {item["question"]!r:.60} has neither an "oracle" nor an "answer" to play')
        turns = [turn if isinstance(turn, list | tuple) else [turn] for turn in item.get("oracle", ())]
        answer = item.get("answer", "done")
        last = OracleTurn(answer=str(answer[0] if isinstance(answer, list | tuple) else answer))
        return [*(OracleTurn(calls=tuple(_as_call(call, item) for call in turn)) for turn in turns), last]


def _ids_of(items: Sequence[Item]) -> tuple[str, ...]:
    """The items' own ids, or their indices; items that a function makes are not made for that."""
    if isinstance(items, tuple):
        return tuple(str(item.get("id", index)) for index, item in enumerate(items))
    return tuple(str(index) for index in range(len(items)))


def _shared_tools(tools: Any) -> SharedTools | None:
    """Tools without state, or None where each episode has its own."""
    if isinstance(tools, Sequence) and not isinstance(tools, str) and tools:
        for function in tools:
            if not isinstance(function, Tool) and not callable(function):
                raise ConfigError(f"tools: expected a list of typed functions, but {function!r} is none")
        return SharedTools(tuple(text_tool(function) for function in tools))
    if not callable(tools) or isinstance(tools, Tool):
        raise ConfigError(f"tools: expected a list of typed functions, or a class, not {tools!r}")
    require_arguments(tools, "tools, where it is no list,", "the item")
    return None


def _check_answers(items: Sequence[Item]) -> None:
    """Items that are there already must have what the default score compares with.

    Raises:
        DataError: one has no "answer".
    """
    for item in items if isinstance(items, tuple) else ():
        _accepted(item)


def _accepted(item: Item) -> list[str]:
    answer = item.get("answer")
    if answer is None or answer in ([], ()):
        raise DataError(f'the item {item["question"]!r:.60} has no "answer"; give items one, or the task a score')
    return [str(one) for one in (answer if isinstance(answer, list | tuple) else [answer])]


def _as_call(call: Any, item: Item) -> ToolCall:
    if not isinstance(call, Mapping) or not isinstance(call.get("name"), str):
        raise DataError(
            f'the item {item["question"]!r:.60}: expected calls such as {{"name": "add", "arguments": {{"a": 2}}}} '
            f'under "oracle", found {call!r:.80}'
        )
    return ToolCall(call["name"], dict(call.get("arguments", {})))


def _matches(answer: str, accepted: str) -> bool:
    wanted, got = _number(accepted), _number(answer)
    if wanted is not None:
        return got == wanted
    return scoring.exact_match(answer, [accepted]) == 1.0 and _numbers_in(answer) == _numbers_in(accepted)


def _number(text: str) -> Fraction | str | None:
    """The number that a text is, thousands separators allowed."""
    return _value(text.strip()) if _NUMBER.fullmatch(text.strip()) else None


def _numbers_in(text: str) -> list[Fraction | str]:
    return [_value(found.group()) for found in _NUMBER.finditer(text)]


def _value(text: str) -> Fraction | str:
    """The value, exactly; one of endless digits as it is written."""
    plain = text.replace(",", "")
    return Fraction(plain.removesuffix(".")) if len(plain) <= _MAX_DIGITS else plain
