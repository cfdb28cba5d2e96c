"""The simulated APIs of one episode: file system, trading, travel, tickets, messages, vehicle, posts, mathematics.

The package keeps the instances of its own runs in module globals. Here each episode has its own, so that nothing
passes from one to another.
"""

from __future__ import annotations

import copy
import functools
import inspect
import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from agent_envs.bfcl.package import alone, api_class, is_stateless
from agent_envs.bfcl.records import BfclItem
from agent_envs.bfcl.schemas import json_schema, tool_name
from agent_envs.tools import Tool, schema_tool

_MAX_DIGITS = 1_000
_MAX_BITS = 100_000


class ApiToolbox:
    """Fresh instances of an item's APIs, each public method a tool."""

    def __init__(self, item: BfclItem, instances: Mapping[str, Any] | None = None) -> None:
        """Loads the item's scenario, unless instances that are in use already are given."""
        self._item = item
        self._instances = _load(item) if instances is None else instances
        methods = {
            name: method
            for instance in self._instances.values()  # where two APIs share a name, the later one counts
            for name, method in inspect.getmembers(instance, inspect.ismethod)
        }
        self.tools = tuple(_method_tool(doc, methods[doc["name"]]) for doc in item.functions)

    @property
    def instances(self) -> Mapping[str, Any]:
        """The APIs by class name."""
        return self._instances

    def fork(self) -> ApiToolbox:
        """A toolbox whose APIs are in the same state, copied."""
        return ApiToolbox(self._item, copy.deepcopy(dict(self._instances)))

    def close(self) -> None:
        """Nothing is held but memory."""


def described_tools(item: BfclItem) -> tuple[Tool, ...]:
    """The tools of a single-turn item, which nobody runs: the calls as written are what is judged."""
    return tuple(
        schema_tool(
            tool_name(doc["name"]),
            doc["description"],
            json_schema(doc["parameters"]),
            _no_result,
            timeout_s=None,
            validate=False,
        )
        for doc in item.functions
    )


def is_endless(name: str, arguments: Mapping[str, Any]) -> bool:
    """Whether a call of the mathematics API would compute for minutes, deaf to every deadline."""
    digits = {"logarithm": "precision", "square_root": "precision", "round_number": "decimal_places"}.get(name)
    if digits is not None:
        value = arguments.get(digits)
        return isinstance(value, int | float) and abs(value) > _MAX_DIGITS
    base, exponent = arguments.get("base"), arguments.get("exponent")
    if name == "power" and isinstance(base, int) and isinstance(exponent, int):
        return base.bit_length() * abs(exponent) > _MAX_BITS
    return False


def _load(item: BfclItem) -> dict[str, Any]:
    instances: dict[str, Any] = {}
    for name in item.api_names:
        instances[name] = api_class(name)()
        if not is_stateless(name):
            instances[name]._load_scenario(copy.deepcopy(item.initial_config.get(name, {})), long_context=False)
    return instances


def _method_tool(doc: Mapping[str, Any], method: Any) -> Tool:
    function = functools.partial(_call, method)
    parameters = json_schema(doc["parameters"])
    made = schema_tool(doc["name"], doc["description"], parameters, function, timeout_s=None, validate=False)
    return replace(made, concurrent=False)  # calls change the state: they run in the order written


def _call(method: Any, /, **arguments: Any) -> str:
    """Runs a call and writes its result as the package does for a model: text as it is, the rest as JSON or ``str``."""
    if is_endless(method.__name__, arguments):
        return "Error during execution: the numbers are too large"
    try:
        with alone():
            return _written(method(**arguments))
    except Exception as error:  # the APIs raise whatever Python raises on wrong arguments
        return f"Error during execution: {error}"


def _written(result: Any) -> str:
    if isinstance(result, str):
        return result
    if isinstance(result, dict):
        try:
            return json.dumps(result)
        except (TypeError, ValueError):
            return str(result)
    return str(result)


def _no_result(**arguments: Any) -> str:
    return ""
