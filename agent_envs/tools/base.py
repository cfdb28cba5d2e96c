"""Tools: typed functions that a policy can call.

A tool's JSON schema comes from the function's signature and docstring (``tool``), or is given (``schema_tool``).
Arguments are validated before the function sees them. A function that wants to tell its caller of a mistake raises
``ToolUseError``; any other exception is a failure of the infrastructure.
"""

from __future__ import annotations

import functools
import re
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias, overload

from agent_envs.errors import ConfigError, ToolUseError
from agent_envs.tools.docstring import read_docstring
from agent_envs.tools.json_schema import Converter, schema_converter
from agent_envs.tools.signature import read_signature

DEFAULT_TIMEOUT_S = 30.0
MAX_NESTING = 50  # of arguments; validators recurse, and must not run out of stack

_NAME = re.compile(r"[\w.:/-]{1,128}")


@dataclass(frozen=True, slots=True)
class ToolOutput:
    """A tool's text for the policy, and plain data for graders and logs that the policy never reads.

    Plain data is what JSON can write: ``None``, ``bool``, ``int``, ``float``, ``str``, lists, and mappings by ``str``.
    """

    content: str
    data: Mapping[str, Any] = field(default_factory=dict)


ToolFunction: TypeAlias = Callable[..., "str | ToolOutput | Awaitable[str | ToolOutput]"]
BatchOutput: TypeAlias = "Sequence[str | ToolOutput | ToolUseError]"
BatchFunction: TypeAlias = Callable[[Sequence[Mapping[str, Any]]], "BatchOutput | Awaitable[BatchOutput]"]


class TurnLock:
    """A lock that a copy or a pickle of its tool does not share."""

    def __init__(self) -> None:
        self._lock = threading.Lock()

    def acquire(self, timeout_s: float | None) -> bool:
        """Waits for the lock, for so long at most; False where the time ran out."""
        return self._lock.acquire(timeout=-1 if timeout_s is None else max(0.0, timeout_s))

    def release(self) -> None:
        """Lets the next one in."""
        self._lock.release()

    def __reduce__(self) -> tuple[type[TurnLock], tuple[()]]:
        return TurnLock, ()


@dataclass(frozen=True, slots=True, eq=False)
class Tool:
    """A tool, made with ``tool`` or ``schema_tool``. Two tools are equal only if they are the same one.

    ``dataclasses.replace`` makes a variant, with another deadline for example.

    Attributes:
        name: what the policy calls it.
        description: what it does, from the docstring.
        parameters: a JSON schema of its arguments.
        function: takes the validated arguments by keyword; it may be async.
        convert: validates arguments and converts them to the function's types.
        batch: takes the arguments of many calls at once, or None.
        timeout_s: a call that runs longer is a failure; None runs it without a deadline, in the caller's thread.
        retries: how often a call is tried again after a failure of the infrastructure, within the same deadline.
        max_output_tokens: a longer result is cut for the policy; None leaves that to the episode's own budget.
        concurrent: False for a tool that must not run beside other calls: its calls run alone and in order, also
            where many episodes share the tool.
        lock: held while a call of a tool runs that is not ``concurrent``.
    """

    name: str
    description: str
    parameters: Mapping[str, Any]
    function: ToolFunction
    convert: Converter
    batch: BatchFunction | None = None
    timeout_s: float | None = DEFAULT_TIMEOUT_S
    retries: int = 0
    max_output_tokens: int | None = None
    concurrent: bool = True
    lock: TurnLock = field(default_factory=TurnLock, repr=False)

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise ConfigError(
                f"a tool's name has 1 to 128 letters, digits or _ . : / -, which {self.name!r} has not; give name="
            )
        if self.timeout_s is not None and not self.timeout_s > 0:
            raise ConfigError(f"timeout_s of the tool {self.name!r} must be above 0 or None, not {self.timeout_s}")
        if self.retries < 0:
            raise ConfigError(f"retries of the tool {self.name!r} must be 0 or more, not {self.retries}")
        if self.max_output_tokens is not None and self.max_output_tokens < 1:
            raise ConfigError(
                f"max_output_tokens of the tool {self.name!r} must be 1 or more, or None, not {self.max_output_tokens}"
            )

    @property
    def schema(self) -> dict[str, Any]:
        """The tool as chat templates and OpenAI-style interfaces expect it."""
        function = {"name": self.name, "description": self.description, "parameters": dict(self.parameters)}
        return {"type": "function", "function": function}

    def validate(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments converted to the function's types, defaults filled in; copies, for the function to keep.

        Raises:
            ToolUseError: they do not fit; the message says which, what is expected, and what came.
        """
        return self.convert({name: self._copy(value, depth=1) for name, value in arguments.items()})

    def _copy(self, value: Any, depth: int) -> Any:
        if depth > MAX_NESTING:
            raise ToolUseError(f"the arguments of {self.name} are nested deeper than {MAX_NESTING}")
        if isinstance(value, dict):
            return {key: self._copy(item, depth + 1) for key, item in value.items()}
        if isinstance(value, list):
            return [self._copy(item, depth + 1) for item in value]
        return value


class _Decorator(Protocol):
    def __call__(self, function: ToolFunction, /) -> Tool: ...


@overload
def tool(
    function: ToolFunction,
    *,
    name: str | None = None,
    batch: BatchFunction | None = None,
    timeout_s: float | None = DEFAULT_TIMEOUT_S,
    retries: int = 0,
    max_output_tokens: int | None = None,
    concurrent: bool = True,
) -> Tool: ...


@overload
def tool(
    function: None = None,
    *,
    name: str | None = None,
    batch: BatchFunction | None = None,
    timeout_s: float | None = DEFAULT_TIMEOUT_S,
    retries: int = 0,
    max_output_tokens: int | None = None,
    concurrent: bool = True,
) -> _Decorator: ...


def tool(
    function: ToolFunction | None = None,
    *,
    name: str | None = None,
    batch: BatchFunction | None = None,
    timeout_s: float | None = DEFAULT_TIMEOUT_S,
    retries: int = 0,
    max_output_tokens: int | None = None,
    concurrent: bool = True,
) -> Tool | _Decorator:
    """Makes a tool of a function with annotated parameters and a Google-style docstring.

    A decorator, bare (``@tool``) or with options (``@tool(timeout_s=5)``), or a plain function (``tool(search)``).

    Args:
        function: gives text or a ``ToolOutput``, at once or awaited. The docstring's first paragraph describes the
            tool, its ``Args:`` section the parameters.
        name: the function's own name by default.
        batch: runs many calls at once; gives one output per call, in order, or a ``ToolUseError`` in place of one.
        timeout_s: the deadline of one call (or of one batch) in seconds.
        retries: see ``Tool``.
        max_output_tokens: see ``Tool``.
        concurrent: see ``Tool``.

    Raises:
        TypeError: a parameter that no schema can describe; the message names it.
        ConfigError: an option that is out of range.
    """

    def make(function: ToolFunction) -> Tool:
        plain = function.func if isinstance(function, functools.partial) else function
        tool_name = str(getattr(plain, "__name__", type(plain).__name__)) if name is None else name
        description, notes = read_docstring(plain)
        parameters, convert = read_signature(function, tool_name, notes)
        return Tool(
            tool_name,
            description,
            parameters,
            function,
            convert,
            batch,
            timeout_s,
            retries,
            max_output_tokens,
            concurrent,
        )

    return make if function is None else make(function)


def schema_tool(
    name: str,
    description: str,
    parameters: Mapping[str, Any],
    function: ToolFunction,
    *,
    batch: BatchFunction | None = None,
    timeout_s: float | None = DEFAULT_TIMEOUT_S,
    validate: bool = True,
) -> Tool:
    """Makes a tool of a JSON schema and a function that takes the arguments by keyword, as they came.

    ``dataclasses.replace`` sets the tool's other options.

    Args:
        name: what the policy calls it.
        description: what it does.
        parameters: the JSON schema of the arguments, an object.
        function: gives text or a ``ToolOutput``, at once or awaited.
        batch: see ``tool``.
        timeout_s: see ``tool``.
        validate: False lets any arguments through, for graders that judge them.

    Raises:
        ConfigError: the schema is not a valid one (where it is used to validate), or an option is out of range.
    """
    convert: Converter = schema_converter(name, parameters) if validate else dict
    return Tool(name, description, parameters, function, convert, batch, timeout_s)
