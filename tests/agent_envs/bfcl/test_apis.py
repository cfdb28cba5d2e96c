from __future__ import annotations

import importlib.util
import time

import pytest

if importlib.util.find_spec("bfcl_eval") is None:
    pytest.skip("needs bfcl-eval, which make test installs: pip install --no-deps bfcl-eval", allow_module_level=True)

from agent_envs.bfcl import package
from agent_envs.bfcl.answers import right_conversation
from agent_envs.bfcl.apis import ApiToolbox, described_tools, is_endless
from agent_envs.bfcl.records import BfclItem, read_category
from agent_envs.tools import ToolExecutor
from agent_envs.types import EventKind, ToolCall

ITEMS = {item.task_id: item for item in read_category("multi_turn_base")}
FILES = ITEMS["multi_turn_base_0"]  # a workspace with document/{final_report.pdf, previous_report.pdf}


def run(box: ApiToolbox, name: str, /, **arguments: object) -> str:
    executor = ToolExecutor(box.tools)
    (result,) = executor.run([executor.check(ToolCall(name, arguments))])
    assert result.kind is EventKind.CALL
    return result.content


def item_with(*api_names: str) -> BfclItem:
    return next(item for item in ITEMS.values() if item.api_names == api_names)


def test_results_are_written_as_the_package_writes_them_over_all_conversations() -> None:
    execute = package.module("bfcl_eval.eval_checker.multi_turn_eval.multi_turn_utils").execute_multi_turn_func_call
    compared = 0
    for item in ITEMS.values():
        box = ApiToolbox(item)
        for calls, sources in zip(right_conversation(item), item.answer, strict=True):
            with package.alone():
                expected, _ = execute(list(sources), item.initial_config, list(item.api_names), "peer_", item.task_id)
            assert [run(box, call.name, **call.arguments) for call in calls] == expected
            compared += len(expected)
        package.forget_instances("peer_")
    assert compared == 1142


def test_calls_of_one_turn_run_in_the_order_written() -> None:
    executor = ToolExecutor(ApiToolbox(FILES).tools)
    names = [("cd", {"folder": "document"}), ("pwd", {}), ("cd", {"folder": ".."}), ("pwd", {})] * 5
    results = executor.run([executor.check(ToolCall(name, arguments)) for name, arguments in names])
    assert [result.content for result in results[1::2]] == [
        '{"current_working_directory": "/workspace/document"}',
        '{"current_working_directory": "/workspace"}',
    ] * 5


def test_episodes_share_no_state_and_leave_none_in_the_package() -> None:
    utilities = package.module("bfcl_eval.eval_checker.multi_turn_eval.multi_turn_utils")
    names = set(vars(utilities))
    first, second = ApiToolbox(FILES), ApiToolbox(FILES)
    run(first, "cd", folder="document")
    run(first, "rm", file_name="final_report.pdf")
    assert "final_report.pdf" in run(second, "find", path=".", name="final")
    assert "final_report.pdf" in run(ApiToolbox(FILES), "find", path=".", name="final")
    assert set(vars(utilities)) == names


def test_a_fork_stands_where_the_original_stood_and_goes_its_own_way() -> None:
    box = ApiToolbox(FILES)
    run(box, "cd", folder="document")
    twin = box.fork()
    assert [tool.schema for tool in twin.tools] == [tool.schema for tool in box.tools]
    assert run(twin, "pwd") == '{"current_working_directory": "/workspace/document"}'
    run(twin, "touch", file_name="new.txt")
    assert "new.txt" in run(twin, "ls")
    assert "new.txt" not in run(box, "ls")


def test_mistakes_come_back_as_text() -> None:
    box = ApiToolbox(FILES)
    assert run(box, "cd", folder="nowhere") == """{"error": "cd: 'nowhere': No such file or directory"}"""
    assert run(box, "cd", wrong="x").startswith("Error during execution: ")
    assert run(box, "cd", self="x", method="y").startswith("Error during execution: ")
    assert run(box, "cd").startswith("Error during execution: ")


def test_an_api_keeps_copies_so_that_the_record_of_the_calls_stays() -> None:
    box = ApiToolbox(ITEMS["multi_turn_base_147"])
    call = ToolCall("post_tweet", {"content": "hello", "tags": ["#a"], "mentions": ["@b"]})
    run(box, call.name, **call.arguments)
    run(box, "mention", tweet_id=1, mentioned_usernames=["@c"])
    assert call.arguments["mentions"] == ["@b"]
    assert box.instances["TwitterAPI"].tweets[1]["mentions"] == ["@b", "@c"]


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("power", {"base": 9, "exponent": 10**9}),
        ("power", {"base": 10**4000, "exponent": 1000}),
        ("round_number", {"number": 5, "decimal_places": -(10**9)}),
        ("logarithm", {"value": 2, "base": 3, "precision": 10**9}),
        ("square_root", {"number": 2, "precision": 10**9}),
    ],
)
def test_a_call_that_would_compute_for_ever_comes_back_at_once(name: str, arguments: dict[str, int]) -> None:
    box = ApiToolbox(item_with("GorillaFileSystem", "MathAPI"))
    assert is_endless(name, arguments)
    start = time.perf_counter()
    assert run(box, name, **arguments) == "Error during execution: the numbers are too large"
    assert time.perf_counter() - start < 1.0


def test_ordinary_arithmetic_is_computed() -> None:
    box = ApiToolbox(item_with("GorillaFileSystem", "MathAPI"))
    assert run(box, "power", base=2, exponent=10) == '{"result": 1024}'
    assert run(box, "power", base=2.0, exponent="x").startswith('{"error"')
    assert run(box, "logarithm", value=100, base=10, precision=5) == "{'result': mpf('2.0')}"
    assert not any(
        is_endless(call.name, call.arguments) for i in ITEMS.values() for t in right_conversation(i) for call in t
    )


def test_single_turn_tools_take_any_arguments() -> None:
    item = read_category("simple")[0]
    (made,) = described_tools(item)
    assert made.name == "calculate_triangle_area"
    executor = ToolExecutor([made])
    assert executor.check(ToolCall(made.name, {"wrong": object()})).error is None
