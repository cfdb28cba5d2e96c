from __future__ import annotations

import contextlib
import copy
import io
import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest

import agent_envs
from agent_envs.envs import TurnEnv
from agent_envs.errors import ConfigError, DataError, ToolUseError
from agent_envs.tasks.base import OracleTurn
from agent_envs.tasks.tool_use import ToolUseTask, match_answer
from agent_envs.tasks.tool_use_example import NUM_ITEMS, make_item
from agent_envs.types import Episode, StopReason, ToolCall, Turn


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def negate(a: int) -> int:
    """Change the sign."""
    return -a


ITEMS: list[dict[str, Any]] = [
    {"question": "What is 2 + 3?", "answer": 5, "oracle": [{"name": "add", "arguments": {"a": 2, "b": 3}}]},
    {"question": "Who says so?", "answer": ["The Oracle", "Delphi"], "id": "who"},
]


class Purse:
    """Pays and says what is left."""

    def __init__(self, item: dict[str, Any]) -> None:
        self.item = item

    def pay(self, coins: int) -> int:
        """Pay."""
        if coins > self.item["coins"][0]:
            raise ToolUseError("not so many")
        self.item["coins"][0] -= coins
        return int(self.item["coins"][0])


def make(**options: Any) -> TurnEnv:
    env = gym.make("AgentR1/ToolUse-v0", level="turn", **options).unwrapped
    assert isinstance(env, TurnEnv)
    return env


def play(env: TurnEnv, task_id: str, script: Sequence[OracleTurn] | None = None) -> Episode:
    core = env.core
    env.reset(options={"task_id": task_id})
    for turn in core.task.oracle(core.item) if script is None else script:
        core.feed(core.encode_turn(core.write_turn(turn)))
    return env.episode


def answer(text: str) -> list[OracleTurn]:
    return [OracleTurn(answer=text)]


def test_functions_items_and_the_default_score_are_a_task() -> None:
    env = make(tools=[add, negate], items=ITEMS)
    assert env.task.task_ids() == ("0", "who")
    episode = play(env, "0")
    assert episode.turns[0].results[0].content == "5"
    assert (episode.reason, episode.total_reward) == (StopReason.ANSWERED, 1.0)
    assert play(env, "who").total_reward == 1.0
    assert play(env, "who", answer("delphi!")).total_reward == 1.0
    assert play(env, "who", answer("Rome")).metrics["score"] == 0.0


def test_a_score_sees_the_answer_the_item_and_the_turns() -> None:
    seen: list[tuple[str, Any, int]] = []

    def score(answer: str, item: Any, turns: Sequence[Turn]) -> float:
        seen.append((answer, item["question"], len(turns)))
        return 0.25

    env = make(tools=[add], items=ITEMS, score=score, max_turns=2)
    assert play(env, "0").total_reward == 0.25
    silent = play(env, "who", [OracleTurn(text="hm"), OracleTurn(text="hm")])
    assert silent.reason is StopReason.MAX_TURNS
    assert seen == [("5", "What is 2 + 3?", 2), ("", "Who says so?", 2)]


@pytest.mark.parametrize("value", [1.5, -0.1, float("nan"), "1", None])
def test_a_score_outside_its_range_is_a_mistake_of_the_task(value: Any) -> None:
    env = make(tools=[add], items=ITEMS, score=lambda answer, item, turns: value)
    with pytest.raises(ConfigError, match=r"expected a number in \[0, 1\]"):
        play(env, "who")


@pytest.mark.parametrize(
    ("given", "accepted", "expected"),
    [
        ("5", 5, 1.0),
        ("5.0", 5, 1.0),
        (" 1,000 ", 1000, 1.0),
        ("15", 1.5, 0.0),  # normalised texts are equal, the numbers are not
        ("5.", 5, 1.0),
        ("1e3", "1000", 1.0),
        ("9" * 5000, 5, 0.0),  # more digits than Python reads
        ("9007199254740992", 9007199254740993, 0.0),  # equal as floats
        ("314", "3,14", 0.0),
        ("7_2", 72, 0.0),
        ("3.5 km.", "3.5 km", 1.0),
        ("35 km", "3.5 km", 0.0),
        ("5 degrees", "-5 degrees", 0.0),
        ("1,000 km", "1000 km", 1.0),
        ("the 1st-2nd", "1st-2nd", 1.0),
        ("five", 5, 0.0),
        ("", 5, 0.0),
        ("an Apple.", "apple", 1.0),
        ("apples", "apple", 0.0),
        ("b", ["a", "b"], 1.0),
        ("True", True, 1.0),
        ("nan", "nan", 1.0),
    ],
)
def test_the_default_score_compares_numbers_as_numbers_and_words_as_words(
    given: str, accepted: Any, expected: float
) -> None:
    assert match_answer(given, {"question": "?", "answer": accepted}, ()) == expected


def test_an_item_without_an_answer_needs_a_score_or_an_oracle() -> None:
    env = make(tools=[add], items=lambda index: {"question": "?"}, num_items=1)  # which is seen only when it is made
    with pytest.raises(DataError, match='has no "answer"'):
        play(env, "0", answer("x"))
    with pytest.raises(DataError, match='neither an "oracle" nor an "answer"'):
        env.task.oracle(env.task.item(0))


def test_a_class_gives_each_episode_its_own_state_and_leaves_the_items_alone() -> None:
    items = [{"question": "Pay 2.", "answer": 8, "coins": [10], "oracle": [{"name": "pay", "arguments": {"coins": 2}}]}]
    env = make(tools=Purse, items=items)
    for _ in range(2):
        episode = play(env, "0")
        assert episode.turns[0].results[0].content == "8"
    assert items[0]["coins"] == [10]


def test_tools_never_see_the_answer() -> None:
    seen: list[dict[str, Any]] = []

    class Spy:
        def __init__(self, item: dict[str, Any]) -> None:
            seen.append(item)

        def look(self) -> str:
            """Look."""
            return "nothing"

    items = [{"question": "?", "answer": 1, "oracle": [], "secret": 2, "open": 3}]
    play(make(tools=Spy, items=items), "0")
    assert seen
    assert all(item == {"question": "?", "open": 3} for item in seen)


def test_a_fork_takes_the_state_along() -> None:
    env = make(tools=Purse, items=[{"question": "Pay.", "answer": 0, "coins": [10]}])
    env.reset(seed=1)
    core = env.core
    pay = core.encode_turn(core.write_turn(OracleTurn(calls=(ToolCall("pay", {"coins": 4}),))))
    core.feed(pay)
    twin = copy.deepcopy(core)
    twin.feed(pay)
    twin.feed(pay)
    core.feed(pay)
    assert [turn.results[0].content for turn in twin.turns] == ["6", "2", "Error: not so many"]
    assert [turn.results[0].content for turn in core.turns] == ["6", "2"]


def test_items_come_from_a_file_or_a_function(tmp_path: Path) -> None:
    file = tmp_path / "items.jsonl"
    file.write_text("".join(json.dumps(item) + "\n" for item in ITEMS))
    assert play(make(tools=[add], items=str(file)), "0").total_reward == 1.0

    made = make(tools=[add], items=lambda index: {"question": f"{index}?", "answer": index}, num_items=50)
    assert len(made.task) == 50
    assert play(made, "7", answer("7")).total_reward == 1.0


def test_a_factory_is_named_by_module_or_file_and_survives_json(tmp_path: Path) -> None:
    file = tmp_path / "my_task.py"
    file.write_text(
        "from agent_envs import ToolUseTask\n"
        "def look(what: str) -> str:\n"
        '    """Look."""\n'
        "    return what\n"
        "def make_task(split: str = 'train') -> ToolUseTask:\n"
        "    return ToolUseTask([look], [{'question': f'{split}?', 'answer': split}])\n"
    )
    env = gym.make("AgentR1/ToolUse-v0", level="turn", factory=f"{file}:make_task", split="test")
    assert env.spec is not None
    again = gym.make(gym.envs.registration.EnvSpec.from_json(env.spec.to_json()))
    _, info = again.reset(seed=0)
    assert info["messages"][-1]["content"] == "test?"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tools": [add]}, "needs both tools and items; tools came alone"),
        ({"score": match_answer}, "needs both tools and items; score came alone"),
        ({"tools": [add], "items": ITEMS, "split": "train"}, "leave out tools, items"),
        ({"tools": [add], "items": ITEMS, "factory": "a:b"}, "leave out tools, items"),
        ({"tools": [], "items": ITEMS}, "expected a list of typed functions, or a class"),
        ({"tools": "add", "items": ITEMS}, "expected a list of typed functions, or a class"),
        (
            {"tools": [add], "items": ITEMS, "score": lambda answer: 1.0},
            "score is called with the answer, the item, the turns",
        ),
        ({"tools": [add], "items": ITEMS, "score": 1.0}, "score is called .*not a callable"),
        ({"tools": [add], "items": (item for item in ITEMS)}, "give a list, or the generator function itself"),
        ({"factory": "nothing"}, 'expected "module:function"'),
        ({"factory": "json:loads", "split": "{}"}, "gave dict; expected a ToolUseTask"),
        ({"split": "dev"}, "split is one of train, validation, test"),
        ({"tool": [add]}, "Did you mean 'tools'"),
    ],
)
def test_options_that_make_no_task_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        make(**options)


def test_two_items_of_one_id_and_untyped_functions_are_refused() -> None:
    with pytest.raises(DataError, match="1 items share an id"):
        ToolUseTask([add], [{"question": "a", "id": "x"}, {"question": "b", "id": "x"}])
    with pytest.raises(TypeError, match="untyped"):
        untyped: Callable[..., Any] = eval("lambda x: x")
        untyped.__name__ = "untyped"
        ToolUseTask([untyped], ITEMS)


def test_a_prompt_of_ones_own_replaces_the_tasks() -> None:
    env = make(tools=[add], items=ITEMS, system_prompt="Be brief, {answer_form}.")
    _, info = env.reset(seed=0)
    assert info["messages"][0]["content"] == "Be brief, between <answer> and </answer>."
    assert make(system_prompt="").task.system_prompt == ""
    assert make().task.system_prompt != ""  # the shared example is as it was


@pytest.mark.parametrize("split", NUM_ITEMS)
def test_the_oracle_of_the_example_earns_everything(split: str) -> None:
    env = make(split=split)
    assert len(env.task) == NUM_ITEMS[split]
    for task_id in env.task.task_ids()[::20]:
        assert play(env, task_id).total_reward == 1.0


def test_the_example_gives_half_for_the_order_and_half_for_the_sum() -> None:
    env = make(max_turns=8)
    item = env.task.item(0)
    *doing, _ = env.task.oracle(item)
    assert play(env, "0", [*doing, *answer("no idea")]).total_reward == 0.5
    assert play(env, "0", answer(item["answer"])).total_reward == 0.5
    assert play(env, "0", [*doing, *doing, *answer("no idea")]).total_reward == 0.0  # ordered twice


def test_the_examples_tools_explain_mistakes() -> None:
    env = make()
    town = next(iter(env.task.item(0)["postage"]))
    calls = (ToolCall("look_up", {"product": "moon"}), ToolCall("order", {"town": town}))
    episode = play(env, "0", [OracleTurn(calls=calls)])
    unknown, empty = (result.content for result in episode.turns[0].results)
    assert unknown.startswith("Error: there is no 'moon'; the products are ")
    assert empty.startswith("Error: order a basket that is not empty")


def test_the_examples_items_are_always_the_same_and_differ_between_parts() -> None:
    assert make_item("train", 3) == make_item("train", 3)
    assert make_item("train", 3)["question"] == (
        "Order 4 x copper kite and 5 x paper kettle to Alordale; where there are fewer, take all there are. "
        "What do you pay in all?"
    )
    questions = {split: {make_item(split, index)["question"] for index in range(200)} for split in NUM_ITEMS}
    assert len(questions["train"]) == 200
    assert questions["train"].isdisjoint(questions["validation"] | questions["test"])


def test_the_class_is_public() -> None:
    assert agent_envs.ToolUseTask is ToolUseTask


def test_the_page_runs_and_prints_what_it_says(
    project_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = (project_root / "docs" / "tool_use.md").read_text()
    whole, stateful, module, named = re.findall(r"^```python\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
    (output,) = re.findall(r"^```text\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
    assert len(whole.splitlines()) < 30

    monkeypatch.chdir(tmp_path)
    (tmp_path / "my_task.py").write_text(module)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        for code in (whole, stateful, named):
            exec(compile(code, "docs/tool_use.md", "exec"), {"__name__": "__main__"})
    assert printed.getvalue() == output


def test_the_conformance_suite_tries_a_task_of_ones_own(tmp_path: Path) -> None:
    file = tmp_path / "task.py"
    file.write_text(
        "from agent_envs import ToolUseTask\n"
        "def double(number: int) -> int:\n"
        '    """Twice a number."""\n'
        "    return 2 * number\n"
        "def make_task() -> ToolUseTask:\n"
        "    items = [{'question': f'Twice {n}?', 'answer': 2 * n} for n in range(100, 150)]\n"
        "    return ToolUseTask([double], items)\n"
    )
    report = agent_envs.check_agent_env("AgentR1/ToolUse-v0", options={"factory": f"{file}:make_task"}, quick=True)
    assert report.ok


def plain_double(number: int) -> int:
    """Twice a number."""
    return 2 * number


class TakesNothing:
    def look(self) -> str:
        """Look."""
        return "nothing"


ONE = [{"question": "Twice 2?", "answer": 4}]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tools": plain_double, "items": ONE}, r"If it is a tool itself, give a list: tools=\[...\]"),
        ({"tools": [3], "items": ONE}, "expected a list of typed functions, but 3 is none"),
        ({"tools": TakesNothing, "items": ONE}, "called with the item, but .*too many positional"),
        (
            {"tools": [plain_double], "items": lambda index: ONE[0]},
            "items without num_items .* called with no arguments",
        ),
        ({"tools": [plain_double], "items": [{"question": "Why?"}]}, 'has no "answer"; give items one, or the task a'),
        ({"tools": [plain_double], "items": [{"question": "Why?", "answer": None}]}, 'has no "answer"'),
        ({"tools": [plain_double], "items": [{"question": "Why?", "answer": []}]}, 'has no "answer"'),
        ({"tools": [plain_double, plain_double], "items": ONE}, "two tools share a name"),
    ],
    ids=["bare function", "number", "no item", "index", "no answer", "none", "empty", "twice"],
)
def test_a_task_that_cannot_be_played_is_refused_when_it_is_made(options: dict[str, Any], message: str) -> None:
    with pytest.raises((ConfigError, DataError), match=message):
        make(**options)


def test_a_solution_that_is_no_call_says_what_is_expected() -> None:
    task = ToolUseTask([plain_double], [{**ONE[0], "oracle": [{"nam": "plain_double"}]}])
    with pytest.raises(DataError, match=r"expected calls such as .*found {'nam': 'plain_double'}"):
        task.oracle(task.item(0))
