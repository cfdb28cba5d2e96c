"""The keyword arguments of ``gym.make``, checked: plain data, so that an environment's spec survives JSON."""

from __future__ import annotations

import dataclasses
import difflib
import json
import os
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from agent_envs.errors import ConfigError

OptionsT = TypeVar("OptionsT")

_KINDS: dict[type, str] = {str: "text", int: "a whole number", float: "a number", bool: "true or false"}


@dataclasses.dataclass(frozen=True, slots=True)
class EpisodeOptions:
    """What every environment takes.

    Attributes:
        level: "token" (one token per step) or "turn" (one turn per step).
        tokenizer: "byte" (embedded), or a Hugging Face tokenizer by folder or name.
        tool_format: how the policy writes calls and answers: "hermes", "hermes-lenient", "harmony", "llama3-json",
            "search-r1", "retool" or "react".
        max_turns: turns of the policy, >= 1.
        max_turn_tokens: tokens of one turn of the policy, >= 1.
        max_observation_tokens: tokens of the contents that the environment writes after one turn, >= 1.
        max_context: tokens of the whole context, prompt included.
        observation: of the token level: "full" (the whole context, padded) or "delta" (only the new tokens).
        ask_final_answer: tell the policy before its last turn that it is the last.
        context_rule: what the policy sees after a turn: "append" (everything), "window" (the prompt and the last
            turns), "summary" (a summary of what is dropped, and the last turns) or "rebuild" (a prompt written anew).
        context_turns: the last turns that window and summary keep whole, >= 1.
        context_tokens: rewrite only a context that would be longer; 0 as soon as the rule has anything to do.
        context_function: "module:function" or "file.py:function" that writes the summary or the rebuilt prompt.
    """

    level: str = "token"
    tokenizer: str = "byte"
    tool_format: str = "hermes"
    max_turns: int = 6
    max_turn_tokens: int = 512
    max_observation_tokens: int = 1024
    max_context: int = 8192
    observation: str = "full"
    ask_final_answer: bool = True
    context_rule: str = "append"
    context_turns: int = 2
    context_tokens: int = 0
    context_function: str | None = None

    def __post_init__(self) -> None:
        """Checks the choices.

        Raises:
            ConfigError: a value is not allowed, or two contradict each other.
        """
        require_choice("level", self.level, ("token", "turn"))
        require_choice("observation", self.observation, ("full", "delta"))
        if self.level == "turn" and self.observation != "full":
            raise ConfigError('observation="delta" belongs to level="token"; at the turn level each text is new anyway')


@dataclasses.dataclass(frozen=True, slots=True)
class VectorOptions:
    """What ``gym.make_vec`` takes beside an environment's own options.

    Attributes:
        autoreset_mode: what becomes of an episode that is over: "NextStep", "SameStep" or "Disabled".
        deadline_s: how long one turn's tools may take in all; then the episode ends as failed.
        max_threads: tool calls at once, per process; None for as many as there are.
        workers: processes that the environments are spread over; 0 keeps them in this one.
    """

    autoreset_mode: str = "NextStep"
    deadline_s: float = 60.0
    max_threads: int | None = dataclasses.field(default=None, metadata={"any": True})
    workers: int = 0

    def __post_init__(self) -> None:
        """Checks the choices.

        Raises:
            ConfigError: a value is not allowed.
        """
        require_choice("autoreset_mode", self.autoreset_mode, ("NextStep", "SameStep", "Disabled"))
        if not self.deadline_s > 0:
            raise ConfigError(f"deadline_s is a number of seconds > 0, not {self.deadline_s}")
        if self.max_threads is not None and (not isinstance(self.max_threads, int) or self.max_threads < 1):
            raise ConfigError(f"max_threads is a whole number >= 1 or None, not {self.max_threads!r}")
        if self.workers < 0:
            raise ConfigError(f"workers is a whole number >= 0, not {self.workers}")


@dataclasses.dataclass(frozen=True, slots=True)
class Option:
    """One keyword argument, for help texts."""

    name: str
    default: Any
    help: str


def read_options(kinds: tuple[type[Any], ...], given: Mapping[str, Any], what: str) -> tuple[Any, ...]:
    """Sorts keyword arguments into dataclasses of options.

    Args:
        kinds: dataclasses with distinct fields.
        given: the arguments as they came.
        what: the environment's id, for messages.

    Raises:
        ConfigError: an argument that no dataclass knows (the message lists the known ones), of another type than its
            default, or not allowed.
    """
    known = {field.name for kind in kinds for field in dataclasses.fields(kind)}
    for name in given:
        if name not in known:
            close = difflib.get_close_matches(name, known, n=1)
            hint = f" Did you mean {close[0]!r}?" if close else ""
            raise ConfigError(f"{what} has no option {name!r}; it takes {', '.join(sorted(known))}.{hint}")
    read = []
    for kind in kinds:
        values = {f.name: _typed(f, given[f.name], what) for f in dataclasses.fields(kind) if f.name in given}
        read.append(kind(**values))
    return tuple(read)


def describe_options(kind: type[Any]) -> list[Option]:
    """The fields of a dataclass of options with what its docstring says of them."""
    notes: dict[str, str] = {}
    for base in reversed(kind.__mro__):
        notes |= _attribute_notes(base.__doc__ or "")
    return [Option(field.name, field.default, notes.get(field.name, "")) for field in dataclasses.fields(kind)]


def require_choice(name: str, value: object, allowed: tuple[str, ...]) -> None:
    """Refuses a value that is none of the allowed ones.

    Raises:
        ConfigError: with the allowed values.
    """
    if value not in allowed:
        raise ConfigError(f"{name} is one of {', '.join(repr(choice) for choice in allowed)}, not {value!r}")


def _typed(field: dataclasses.Field[Any], value: Any, what: str) -> Any:
    """The value, if it is of its default's type; options that default to None take text. A path is read as text.

    A field with ``metadata={"any": True}`` takes whatever comes, such as a function; its dataclass checks it.
    """
    if field.metadata.get("any"):
        return value
    if isinstance(value, os.PathLike):
        value = os.fspath(value)
    if type(field.default) is float and type(value) is int:
        return float(value)
    wanted = str if field.default is None else type(field.default)
    allowed = value is None and field.default is None
    if not allowed and (not isinstance(value, wanted) or (isinstance(value, bool) and wanted is not bool)):
        raise ConfigError(f"{what}: the option {field.name!r} is {_KINDS[wanted]}, not {value!r}")
    return value


def _attribute_notes(doc: str) -> dict[str, str]:
    notes: dict[str, str] = {}
    current = ""
    for line in doc.partition("Attributes:")[2].splitlines():
        head, colon, rest = line.strip().partition(": ")
        if colon and head.isidentifier() and line.startswith("        ") and not line.startswith("         "):
            current = head
            notes[current] = rest
        elif current and line.strip():
            notes[current] += f" {line.strip()}"
    return notes


def parse_assignments(assignments: Sequence[str]) -> dict[str, Any]:
    """Reads ``key=value`` words of a command line; numbers, true, false and null as in JSON, all else as text.

    Raises:
        ConfigError: a word has no "=", or a key comes twice.
    """
    values: dict[str, Any] = {}
    for assignment in assignments:
        key, equals, text = assignment.partition("=")
        if not equals or not key:
            raise ConfigError(f"expected key=value, such as split=mini/test, not {assignment!r}")
        if key in values:
            raise ConfigError(f"the option {key!r} is given twice")
        try:
            values[key] = json.loads(text)
        except ValueError:
            values[key] = text
    return values
