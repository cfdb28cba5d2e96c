"""Whether a policy's calls are right, by the package's own checkers.

Deviations from the package's evaluation:
1. Its executor runs what the policy wrote with ``eval``. A call whose name is no tool of the item, whose argument is no
   identifier or whose numbers would compute for minutes is handed over as a call of nothing, which fails without harm.
2. Where a checker itself raises on odd arguments, the calls count as wrong.
"""

from __future__ import annotations

import copy
import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from agent_envs.bfcl import package
from agent_envs.bfcl.apis import is_endless
from agent_envs.bfcl.records import BfclItem
from agent_envs.types import EventKind, ToolCall

UserTurn: TypeAlias = Sequence[Sequence[ToolCall]]  # the calls of each of the policy's turns up to its plain words

_numbers = itertools.count()


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a checker said; ``error_type`` is the package's name for what is wrong, "" where nothing is."""

    valid: bool
    error_type: str = ""


RIGHT = Verdict(True)


def grade_calls(item: BfclItem, calls: Sequence[ToolCall]) -> Verdict:
    """The verdict on the calls of a single-turn test, as written."""
    if any(call.kind is EventKind.MALFORMED_CALL for call in calls):
        return Verdict(False, "ast_decoder:decoder_failed")
    written = [{call.name: copy.deepcopy(dict(call.arguments))} for call in calls]
    try:
        said = package.ast_checker()(
            list(item.functions),
            written,
            list(item.answer),
            package.python_language(),
            item.category,
            package.MODEL_NAME,
        )
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
        return Verdict(False, "checker_error")
    return RIGHT if said["valid"] else Verdict(False, said["error_type"])


def grade_conversation(item: BfclItem, user_turns: Sequence[UserTurn]) -> Verdict:
    """The verdict on a conversation: state and results are compared after each of the user's turns.

    With fewer turns than the item has, those are judged.
    """
    names = {function["name"] for function in item.functions}
    written = [[step for calls in turn if (step := _as_python(calls, names))] for turn in user_turns]
    answers = list(item.answer[: len(written)])
    entry = {"id": item.task_id, "initial_config": item.initial_config, "involved_classes": list(item.api_names)}
    # The checker keeps its instances as globals, by this name: a name of its own for each grading, dropped afterwards.
    prefix = f"agent_r1_{next(_numbers)}_"
    try:
        with package.alone():
            said = package.multi_turn_checker()(written, answers, entry, item.category, prefix)
    except (ArithmeticError, AssertionError, AttributeError, LookupError, TypeError, ValueError):
        return Verdict(False, "checker_error")
    finally:
        package.forget_instances(prefix)
    return RIGHT if said["valid"] else Verdict(False, said["error_type"])


def _as_python(calls: Sequence[ToolCall], names: set[str]) -> list[str]:
    """The calls of one turn as the executor takes them; unreadable ones are left out."""
    return [_python_call(call, names) for call in calls if call.kind is not EventKind.MALFORMED_CALL]


def _python_call(call: ToolCall, names: set[str]) -> str:
    safe = call.name in names and all(_is_name(key) for key in call.arguments)
    if not safe or is_endless(call.name, call.arguments):
        return "no_such_function()"
    arguments = ",".join(f"{key}={value!r}" for key, value in call.arguments.items())
    return f"{call.name}({arguments})"


def _is_name(key: Any) -> bool:
    return isinstance(key, str) and key.isidentifier()
