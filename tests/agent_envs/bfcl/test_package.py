from __future__ import annotations

import importlib.util
import subprocess
import sys
from importlib.machinery import ModuleSpec

import jsonschema
import pytest

from agent_envs.bfcl import package
from agent_envs.bfcl.records import CATEGORIES, read_category
from agent_envs.bfcl.schemas import json_schema, tool_name
from agent_envs.errors import MissingExtraError

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("bfcl_eval") is None,
    reason="needs bfcl-eval, which make test installs: pip install --no-deps bfcl-eval",
)


def test_a_missing_package_is_named_with_the_command_that_brings_it(monkeypatch: pytest.MonkeyPatch) -> None:
    find_spec = importlib.util.find_spec

    def find(name: str, *rest: str) -> ModuleSpec | None:
        return None if name == "bfcl_eval" else find_spec(name, *rest)

    monkeypatch.setattr(importlib.util, "find_spec", find)
    with pytest.raises(MissingExtraError, match=rf"pip install --no-deps bfcl-eval=={package.VERSION}"):
        package.data_folder()


def test_the_checkers_load_without_what_the_model_handlers_import() -> None:
    script = (
        "import sys; from agent_envs.bfcl import package\n"
        "package.ast_checker(); package.multi_turn_checker()\n"
        "import agent_envs.bfcl.records as r; [package.api_class(n) for i in r.read_category('multi_turn_base') "
        "for n in i.api_names]\n"
        "names = sorted({name.partition('.')[0] for name in sys.modules})\n"
        "print(names, 'bfcl_eval.constants.model_config' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    names, _, table_loaded = done.stdout.strip().rpartition(" ")
    assert table_loaded == "False"
    for vendor in ("anthropic", "openai", "cohere", "tree_sitter", "tenacity", "faiss", "torch"):
        assert f"'{vendor}'" not in names


def test_the_checker_of_calls_is_a_private_copy_that_does_not_change_the_package() -> None:
    checker = package.ast_checker()
    assert checker.__globals__ is not vars(sys.modules["builtins"])
    assert "bfcl_eval.eval_checker.ast_eval.ast_checker" not in sys.modules
    assert checker is package.ast_checker()


def test_precision_is_the_same_after_a_simulated_api_has_set_it() -> None:
    import decimal

    import mpmath

    before = mpmath.mp.dps, decimal.getcontext().prec
    api = package.api_class("MathAPI")()
    with package.alone():
        api.logarithm(value=2.0, base=10.0, precision=40)
        api.square_root(number=2, precision=50)
        assert (mpmath.mp.dps, decimal.getcontext().prec) == (40, 50)
    assert (mpmath.mp.dps, decimal.getcontext().prec) == before


@pytest.mark.parametrize(
    ("category", "count", "first"),
    [
        ("simple", 400, "simple_python_0"),
        ("multiple", 200, "multiple_0"),
        ("parallel", 200, "parallel_0"),
        ("multi_turn_base", 200, "multi_turn_base_0"),
    ],
)
def test_every_category_is_read_whole(category: str, count: int, first: str) -> None:
    items = read_category(category)
    assert len(items) == count
    assert items[0].task_id == first
    assert all(item.answer and item.functions and item.user_turns for item in items)
    assert all(item.multi_turn == (category == "multi_turn_base") for item in items)


def test_a_conversation_has_the_functions_of_its_apis_and_an_answer_for_each_turn() -> None:
    for item in read_category("multi_turn_base"):
        assert len(item.answer) == len(item.user_turns)
    file_system_and_posts = read_category("multi_turn_base")[0]
    assert file_system_and_posts.api_names == ("TwitterAPI", "GorillaFileSystem")
    assert {"cd", "post_tweet"} <= {function["name"] for function in file_system_and_posts.functions}


def test_types_become_those_of_json_schema_at_every_depth() -> None:
    parameters = {
        "type": "dict",
        "properties": {
            "ratio": {"type": "float", "description": "a share"},
            "point": {"type": "tuple", "items": {"type": "float"}},
            "filter": {"type": "dict", "properties": {"any": {"type": "any"}, "untyped": {}}},
            "rows": {"type": "array", "items": {"type": "dict", "properties": {"n": {"type": "integer"}}}},
        },
        "required": ["ratio"],
    }
    assert json_schema(parameters) == {
        "type": "object",
        "properties": {
            "ratio": {"type": "number", "description": "a share"},
            "point": {"type": "array", "items": {"type": "number"}},
            "filter": {"type": "object", "properties": {"any": {"type": "string"}, "untyped": {"type": "string"}}},
            "rows": {"type": "array", "items": {"type": "object", "properties": {"n": {"type": "integer"}}}},
        },
        "required": ["ratio"],
    }
    assert parameters["properties"]["ratio"]["type"] == "float"  # type: ignore[index]
    assert tool_name("spotify.play") == "spotify_play"


def test_every_description_becomes_a_valid_json_schema() -> None:
    functions = [function for name in CATEGORIES for item in read_category(name) for function in item.functions]
    for function in {function["name"]: function for function in functions}.values():
        jsonschema.Draft202012Validator.check_schema(json_schema(function["parameters"]))
