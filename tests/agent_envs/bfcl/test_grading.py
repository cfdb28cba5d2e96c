from __future__ import annotations

import importlib.util
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

if importlib.util.find_spec("bfcl_eval") is None:
    pytest.skip("needs bfcl-eval, which make test installs: pip install --no-deps bfcl-eval", allow_module_level=True)

from agent_envs.bfcl import package
from agent_envs.bfcl.answers import right_calls, right_conversation
from agent_envs.bfcl.grading import RIGHT, Verdict, grade_calls, grade_conversation
from agent_envs.bfcl.records import BfclItem, read_category
from agent_envs.types import EventKind, ToolCall

SINGLE = ("simple", "multiple", "parallel")
CONVERSATIONS = {item.task_id: item for item in read_category("multi_turn_base")}
FILES = CONVERSATIONS["multi_turn_base_0"]
UTILITIES = package.module("bfcl_eval.eval_checker.multi_turn_eval.multi_turn_utils")

Calls = list[ToolCall]


def steps(item: BfclItem) -> list[list[Calls]]:
    """The right conversation, one call a step."""
    return [[[call] for call in calls] for calls in right_conversation(item)]


def said_of_calls(item: BfclItem, calls: Calls) -> Verdict:
    """What the package's checker says of these calls, decoded as its function-calling handlers decode them."""
    decoded = [{call.name: dict(call.arguments)} for call in calls]
    said = package.ast_checker()(
        list(item.functions), decoded, list(item.answer), package.python_language(), item.category, package.MODEL_NAME
    )
    return RIGHT if said["valid"] else Verdict(False, said["error_type"])


def said_of_conversation(item: BfclItem, user_turns: list[list[Calls]]) -> Verdict:
    """What the package's checker says of these calls, written as its function-calling handlers write them."""

    def source(call: ToolCall) -> str:
        return f"{call.name}({','.join(f'{k}={v!r}' for k, v in call.arguments.items())})"

    decoded = [[[source(call) for call in step] for step in turn] for turn in user_turns]
    entry = {"id": item.task_id, "initial_config": item.initial_config, "involved_classes": item.api_names}
    try:
        said = package.multi_turn_checker()(decoded, item.answer, entry, item.category, "peer_")
    finally:
        package.forget_instances("peer_")
    return RIGHT if said["valid"] else Verdict(False, said["error_type"])


def changed(value: Any) -> Any:
    """Another value of the same type."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return value + 977
    if isinstance(value, str):
        return f"{value} not this"
    if isinstance(value, list):
        return [*value, changed(value[0])] if value else [977]
    return {**value, "unheard_of": 1}


def wrong_value(calls: Calls) -> Calls:
    first, *rest = calls
    name = next(iter(first.arguments))
    return [ToolCall(first.name, {**first.arguments, name: changed(first.arguments[name])}), *rest]


def extra_argument(calls: Calls) -> Calls:
    return [ToolCall(calls[0].name, {**calls[0].arguments, "unheard_of": 1}), *calls[1:]]


def lost_argument(calls: Calls) -> Calls:
    return [ToolCall(calls[0].name, {}), *calls[1:]]


def wrong_function(calls: Calls) -> Calls:
    return [ToolCall("unheard_of", calls[0].arguments), *calls[1:]]


def missing_call(calls: Calls) -> Calls:
    return calls[1:]


def extra_call(calls: Calls) -> Calls:
    return [*calls, calls[0]]


MISTAKES = (wrong_value, extra_argument, lost_argument, wrong_function, missing_call, extra_call)


@pytest.mark.parametrize("category", SINGLE)
def test_the_right_calls_are_right_in_every_item(category: str) -> None:
    assert [item.task_id for item in read_category(category) if grade_calls(item, right_calls(item)) != RIGHT] == []


@pytest.mark.parametrize("category", SINGLE)
@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_graded_as_the_package_grades_it(category: str, mistake: Callable[[Calls], Calls]) -> None:
    items = [item for item in read_category(category) if all(call.arguments for call in right_calls(item))]
    wrong = 0
    for item in items:
        calls = mistake(list(right_calls(item)))
        verdict = grade_calls(item, calls)
        assert verdict == said_of_calls(item, calls)
        wrong += not verdict.valid
    # A value that differs may be allowed, and an argument left out may have been optional: rare exceptions.
    assert wrong >= 0.99 * len(items)


def test_the_order_of_parallel_calls_does_not_matter() -> None:
    wrong = [item.task_id for item in read_category("parallel") if grade_calls(item, right_calls(item)[::-1]) != RIGHT]
    # The package matches greedily: here the first answer also allows what only the third one asks for.
    assert wrong == ["parallel_178"]


def test_the_errors_of_single_turns_have_the_names_of_the_package() -> None:
    item = read_category("simple")[0]
    right = list(right_calls(item))
    assert right == [ToolCall("calculate_triangle_area", {"base": 10, "height": 5, "unit": "units"})]
    assert grade_calls(item, []) == Verdict(False, "simple_function_checker:wrong_count")
    assert grade_calls(item, [*right, *right]) == Verdict(False, "simple_function_checker:wrong_count")
    assert grade_calls(item, [ToolCall("triangle", {})]) == Verdict(False, "simple_function_checker:wrong_func_name")
    assert grade_calls(item, wrong_value(right)) == Verdict(False, "value_error:others")
    assert grade_calls(item, [ToolCall(right[0].name, {"base": "10", "height": 5})]) == Verdict(
        False, "type_error:simple"
    )
    unreadable = ToolCall("", error="no JSON", kind=EventKind.MALFORMED_CALL)
    assert grade_calls(item, [*right, unreadable]) == Verdict(False, "ast_decoder:decoder_failed")


def test_dots_in_names_are_underscores() -> None:
    item = next(item for item in read_category("simple") if "." in item.functions[0]["name"])
    (call,) = right_calls(item)
    assert "." not in call.name
    assert grade_calls(item, [call]) == RIGHT
    assert not grade_calls(item, [ToolCall(item.functions[0]["name"], call.arguments)]).valid


def test_the_right_conversation_is_right_in_every_item() -> None:
    assert [item.task_id for item in CONVERSATIONS.values() if grade_conversation(item, steps(item)) != RIGHT] == []


@pytest.mark.parametrize("seed", range(4))
def test_a_mistake_in_a_conversation_is_graded_as_the_package_grades_it(seed: int) -> None:
    outcomes: dict[str, int] = {}
    for number, item in enumerate(list(CONVERSATIONS.values())[seed::8]):
        turns = steps(item)
        at = number % len(turns)
        if not turns[at]:
            continue
        kind = ("drop", "value", "swap", "double")[(number + seed) % 4]
        if kind == "drop":
            turns[at] = turns[at][1:]
        elif kind == "value":
            turns[at][-1] = wrong_value(turns[at][-1]) if turns[at][-1][0].arguments else []
        elif kind == "swap":
            turns[at] = turns[at][::-1]
        else:
            turns[at] = turns[at] + turns[at][-1:]
        verdict = grade_conversation(item, turns)
        assert verdict == said_of_conversation(item, turns)
        outcomes[verdict.error_type] = outcomes.get(verdict.error_type, 0) + 1
    assert sum(outcomes.values()) > 20
    assert any(outcomes)  # at least one error


def test_the_errors_of_conversations_have_the_names_of_the_package() -> None:
    right = steps(FILES)  # cd document, mkdir temp, mv; cd temp, grep; sort; cd .., mv, cd temp, diff
    assert [call.name for step in right[0] for call in step] == ["cd", "mkdir", "mv"]

    late = [list(reversed(right[0])), *right[1:]]
    assert grade_conversation(FILES, late) == Verdict(False, "multi_turn:instance_state_mismatch")
    unasked = [[*right[0], [ToolCall("touch", {"file_name": "x"})]], *right[1:]]
    assert grade_conversation(FILES, unasked) == Verdict(False, "multi_turn:instance_state_mismatch")
    unread = [right[0], right[1][:1], *right[2:]]
    assert grade_conversation(FILES, unread) == Verdict(False, "multi_turn:execution_response_mismatch")
    silent = [right[0], [], *right[2:]]
    assert grade_conversation(FILES, silent) == Verdict(False, "multi_turn:empty_turn_model_response")


def test_calls_in_one_step_and_harmless_extra_looks_are_right() -> None:
    together = [[[call for step in turn for call in step]] for turn in steps(FILES)]
    assert grade_conversation(FILES, together) == RIGHT
    curious = [[[ToolCall("ls", {})], *turn] for turn in steps(FILES)]
    assert grade_conversation(FILES, curious) == RIGHT


def test_a_conversation_that_goes_on_is_judged_up_to_where_it_stands() -> None:
    right = steps(FILES)
    assert grade_conversation(FILES, right[:2]) == RIGHT
    assert not grade_conversation(FILES, [right[0], right[1][:1]]).valid


@pytest.mark.parametrize(
    "call",
    [
        ToolCall("open", {"file": "PATH", "mode": "w"}),
        ToolCall("__import__('pathlib').Path", {"_": "PATH"}),
        ToolCall("cd", {"folder=open('PATH', 'w'), x": 1}),
        ToolCall("cd", {"folder": 1, "**{}) or open('PATH', 'w').write": "x"}),
        ToolCall("exec", {"source": "open('PATH', 'w')"}),
    ],
)
def test_nothing_that_a_policy_writes_is_run_as_python(call: ToolCall, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    text = str(victim)
    spelled = ToolCall(
        call.name.replace("PATH", text),
        {key.replace("PATH", text): str(value).replace("PATH", text) for key, value in call.arguments.items()},
    )
    right = steps(FILES)
    assert grade_conversation(FILES, [[[spelled], *right[0]], *right[1:]]) == RIGHT  # it failed, and changed nothing
    assert not victim.exists()


def test_grading_leaves_nothing_behind() -> None:
    before = set(vars(UTILITIES))
    grade_conversation(FILES, steps(FILES))
    grade_conversation(FILES, [[]] * len(FILES.answer))
    assert set(vars(UTILITIES)) == before


def test_many_threads_grade_at_once_and_agree() -> None:
    items = list(CONVERSATIONS.values())[:24]
    wrong = {item.task_id: [turn[1:] for turn in steps(item)] for item in items}
    expected = [
        (grade_conversation(item, steps(item)), grade_conversation(item, wrong[item.task_id])) for item in items
    ]
    found: dict[int, list[tuple[Verdict, Verdict]]] = {}

    def work(number: int) -> None:
        found[number] = [
            (grade_conversation(item, steps(item)), grade_conversation(item, wrong[item.task_id])) for item in items
        ]

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == dict.fromkeys(range(4), expected)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-99, 99) | st.floats(-9, 9) | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)


@given(st.data())
def test_no_arguments_make_the_grading_raise(data: st.DataObject) -> None:
    item = data.draw(st.sampled_from([item for name in SINGLE for item in read_category(name)]))
    calls = []
    for call in right_calls(item):
        values = {
            name: data.draw(JSON) if data.draw(st.booleans()) else call.arguments[name] for name in call.arguments
        }
        calls.append(ToolCall(call.name, values))
    assert isinstance(grade_calls(item, calls).valid, bool)

    conversation = data.draw(st.sampled_from(list(CONVERSATIONS.values())))
    names = [function["name"] for function in conversation.functions]
    turns = [
        [
            [
                ToolCall(
                    data.draw(st.sampled_from(names)), data.draw(st.dictionaries(st.text(max_size=5), JSON, max_size=2))
                )
            ]
        ]
        for _ in conversation.user_turns
    ]
    assert isinstance(grade_conversation(conversation, turns).valid, bool)
