from __future__ import annotations

import dataclasses
import datetime
import enum
import types
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from agent_envs.errors import ConfigError, ToolUseError
from agent_envs.tools import Tool, ToolExecutor, ToolOutput
from agent_envs.tools.objects import ObjectTools, method_tools, text_tool
from agent_envs.types import EventKind, ToolCall, ToolResult


class Counter:
    """Counts."""

    limit = 10

    def __init__(self) -> None:
        self.seen: list[int] = []
        self.closed = 0

    @property
    def total(self) -> int:
        raise AssertionError("a property is no tool, and nobody reads it")

    def add(self, number: int) -> dict[str, Any]:
        """Add a number.

        Args:
            number: which.
        """
        if number > self.limit:
            raise ToolUseError(f"at most {self.limit}")
        self.seen.append(number)
        return {"seen": self.seen}

    def _secret(self) -> str:
        raise AssertionError("no tool")

    @staticmethod
    def double(number: int) -> int:
        """Twice a number."""
        return 2 * number

    async def wait(self) -> list[int]:
        """Say it later."""
        return self.seen

    def close(self) -> None:
        """No tool."""
        self.closed += 1


class Child(Counter):
    """Has a tool more."""

    def clear(self) -> None:
        """Forget all."""
        self.seen.clear()


def run(tools: ObjectTools, *calls: tuple[str, dict[str, Any]]) -> list[ToolResult]:
    executor = ToolExecutor(tools.tools)
    return list(executor.run([executor.check(ToolCall(name, arguments)) for name, arguments in calls]))


def of(instance: Any) -> ObjectTools:
    return ObjectTools(instance, method_tools(instance))


def test_public_methods_are_tools_in_the_order_of_definition() -> None:
    tools = of(Child())
    assert [tool.name for tool in tools.tools] == ["add", "double", "wait", "clear"]
    assert tools.tools[0].description == "Add a number."
    assert tools.tools[0].parameters["properties"]["number"]["description"] == "which."
    assert not any(tool.concurrent for tool in tools.tools)


def test_what_is_no_text_is_written_as_json() -> None:
    results = run(of(Child()), ("add", {"number": 3}), ("double", {"number": 4}), ("wait", {}), ("clear", {}))
    assert [result.content for result in results] == ['{"seen": [3]}', "8", "[3]", "null"]


def test_calls_of_one_turn_run_one_after_another() -> None:
    results = run(of(Counter()), *[("add", {"number": number}) for number in (1, 2, 3)])
    assert results[-1].content == '{"seen": [1, 2, 3]}'


def test_a_mistake_is_an_error_for_the_policy_and_a_crash_is_a_failure() -> None:
    class Broken:
        def crash(self) -> str:
            """Crash."""
            raise RuntimeError("no disk")

    assert run(of(Counter()), ("add", {"number": 11}))[0] == ToolResult("Error: at most 10", kind=EventKind.TOOL_ERROR)
    assert run(of(Broken()), ("crash", {}))[0].kind is EventKind.TOOL_FAILURE


def test_a_fork_copies_the_object() -> None:
    tools = of(Counter())
    run(tools, ("add", {"number": 1}))
    twin = tools.fork()
    run(twin, ("add", {"number": 2}))
    assert (tools.instance.seen, twin.instance.seen) == ([1], [1, 2])
    twin.close()
    assert (tools.instance.closed, twin.instance.closed) == (0, 1)


def test_an_object_without_public_methods_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"list has no public method|no public method"):
        method_tools(object())


def plain(x: int) -> float:
    """Half of it."""
    return x / 2


def rich(x: int) -> ToolOutput:
    """Half of it."""
    return ToolOutput(str(x / 2), {"half": x / 2})


@pytest.mark.parametrize(("function", "data"), [(plain, {}), (rich, {"half": 1.5})])
def test_functions_may_give_values_or_outputs(function: Callable[..., Any], data: dict[str, float]) -> None:
    made = text_tool(function)
    executor = ToolExecutor([made])
    (result,) = executor.run([executor.check(ToolCall(made.name, {"x": 3}))])
    assert result == ToolResult("1.5", data)
    assert isinstance(text_tool(made), Tool)


def test_a_tool_that_keeps_and_changes_its_arguments_does_not_change_the_record() -> None:
    class Keeper:
        def keep(self, notes: dict[str, Any]) -> str:
            """Keep notes."""
            notes["lines"].append("mine")
            return str(notes)

    executor = ToolExecutor(of(Keeper()).tools)
    call = executor.check(ToolCall("keep", {"notes": {"lines": ["theirs"]}}))
    (result,) = executor.run([call])
    assert result.content == "{'lines': ['theirs', 'mine']}"
    assert call.arguments == {"notes": {"lines": ["theirs"]}}


class Colour(enum.Enum):
    RED = "red"


@dataclasses.dataclass
class Wall:
    colour: Colour
    built: datetime.date


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (Wall(Colour.RED, datetime.date(2024, 2, 29)), '{"colour": "red", "built": "2024-02-29"}'),
        ([Colour.RED, {"a": (1, None)}], '["red", {"a": [1, null]}]'),
        (np.int64(3), "3"),
        (np.array([[1, 2]]), "[[1, 2]]"),
        (types.MappingProxyType({"a": 1}), '{"a": 1}'),
    ],
)
def test_plain_values_of_every_kind_are_written_as_json(value: Any, text: str) -> None:
    def give() -> Any:
        """Give it."""
        return value

    (result,) = ToolExecutor([text_tool(give)]).run([ToolCall("give", {})])
    assert (result.kind, result.content) == (EventKind.CALL, text)


def test_a_value_that_json_cannot_write_is_a_failure_and_never_an_address_in_memory() -> None:
    def give() -> Any:
        """Give it."""
        return [object()]

    (result,) = ToolExecutor([text_tool(give)]).run([ToolCall("give", {})])
    assert result.kind is EventKind.TOOL_FAILURE
    assert "a tool gave object, which JSON cannot write; return text" in result.content
