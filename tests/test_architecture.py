"""The limits of CONTRIBUTING.md that no off-the-shelf tool measures."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parent.parent
MAX_MODULE_LINES = 500
MAX_FUNCTION_LINES = 60
MAX_NESTING = 3
HEAVY = frozenset(
    {
        "bm25s",
        "datasets",
        "faiss",
        "matplotlib",
        "peft",
        "sentence_transformers",
        "torch",
        "transformers",
        "trl",
        "vllm",
    }
)
TRL_MODULES = {"agent_trainer/config.py", "agent_trainer/trainer.py", "agent_trainer/trl_bridge.py"}
VAGUE_NAMES = {"util", "utils", "helper", "helpers", "manager", "managers", "misc", "common"}

Function = ast.FunctionDef | ast.AsyncFunctionDef
BLOCKS = (ast.If, ast.For, ast.AsyncFor, ast.While, ast.With, ast.AsyncWith, ast.Try, ast.TryStar, ast.Match)


def modules(*folders: str) -> list[str]:
    return sorted(
        path.relative_to(PROJECT).as_posix() for folder in folders for path in (PROJECT / folder).rglob("*.py")
    )


def parsed(module: str) -> ast.Module:
    return ast.parse((PROJECT / module).read_text(encoding="utf-8"), filename=module)


def functions(module: str) -> Iterator[Function]:
    return (node for node in ast.walk(parsed(module)) if isinstance(node, Function))


def lines_without_docstring(function: Function) -> int:
    first = function.body[0]
    has_docstring = ast.get_docstring(function, clean=False) is not None
    docstring = (first.end_lineno or first.lineno) - first.lineno + 1 if has_docstring else 0
    return (function.end_lineno or function.lineno) - function.lineno + 1 - docstring


def nesting(node: ast.AST, depth: int = 0) -> int:
    """The deepest block below a node; an ``elif`` is no deeper than its ``if``, a function within starts afresh."""
    deepest = depth
    for name, field in ast.iter_fields(node):
        children = field if isinstance(field, list) else [field]
        is_elif = (
            isinstance(node, ast.If) and name == "orelse" and len(children) == 1 and isinstance(children[0], ast.If)
        )
        for child in children:
            if isinstance(child, ast.AST) and not isinstance(child, (*Function.__args__, ast.Lambda)):
                step = 1 if isinstance(child, BLOCKS) and not is_elif else 0
                deepest = max(deepest, nesting(child, depth + step))
    return deepest


def imports_at_module_level(module: str) -> set[str]:
    """Top-level packages that importing the module imports; what stands under TYPE_CHECKING does not count."""
    found: set[str] = set()
    pending: list[ast.stmt] = list(parsed(module).body)
    while pending:
        statement = pending.pop()
        if isinstance(statement, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in statement.names}
        elif isinstance(statement, ast.ImportFrom):
            found.add((statement.module or "").partition(".")[0])
        elif isinstance(statement, ast.If) and "TYPE_CHECKING" in ast.dump(statement.test):
            pending += statement.orelse
        elif isinstance(statement, (ast.ClassDef, *BLOCKS)):
            pending += [child for child in ast.walk(statement) if isinstance(child, ast.Import | ast.ImportFrom)]
    return found


def imported_anywhere(module: str) -> set[str]:
    nodes = list(ast.walk(parsed(module)))
    plain = {alias.name.partition(".")[0] for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    return plain | {(node.module or "").partition(".")[0] for node in nodes if isinstance(node, ast.ImportFrom)}


@pytest.mark.parametrize("module", modules("agent_envs", "agent_trainer", "benchmarks", "tests"))
def test_modules_and_functions_keep_their_size(module: str) -> None:
    assert len((PROJECT / module).read_text(encoding="utf-8").splitlines()) <= MAX_MODULE_LINES
    too_long = {f.name: n for f in functions(module) if (n := lines_without_docstring(f)) > MAX_FUNCTION_LINES}
    assert not too_long, f"functions of more than {MAX_FUNCTION_LINES} lines in {module}: {too_long}"


@pytest.mark.parametrize("module", modules("agent_envs", "agent_trainer"))
def test_blocks_are_not_nested_deeper_than_three(module: str) -> None:
    too_deep = {f.name: n for f in functions(module) if (n := nesting(f)) > MAX_NESTING}
    assert not too_deep, f"nested deeper than {MAX_NESTING} in {module}: {too_deep}"


@pytest.mark.parametrize("module", modules("agent_envs", "agent_trainer", "benchmarks", "tests"))
def test_modules_have_names_that_say_something(module: str) -> None:
    assert VAGUE_NAMES.isdisjoint(Path(module).stem.split("_"))


@pytest.mark.parametrize("module", modules("agent_envs"))
def test_agent_envs_imports_nothing_heavy_at_module_level(module: str) -> None:
    assert not imports_at_module_level(module) & HEAVY


@pytest.mark.parametrize("module", modules("agent_trainer"))
def test_only_the_trainer_and_its_bridge_know_trl(module: str) -> None:
    assert module in TRL_MODULES or "trl" not in imported_anywhere(module)


def test_importing_agent_envs_is_light_and_quick() -> None:
    script = (
        "import sys, time; start = time.process_time(); import agent_envs; seconds = time.process_time() - start\n"
        f"print(sorted({set(HEAVY)!r} & set(sys.modules)), seconds)"
    )
    runs = []
    for _ in range(3):  # the best of three, in processor time: a shared machine has slow moments
        done = subprocess.run([sys.executable, "-c", script], cwd=PROJECT, capture_output=True, text=True, check=True)
        heavy, _, seconds = done.stdout.strip().rpartition(" ")
        assert heavy == "[]"
        runs.append(float(seconds))
        if runs[-1] < 1.0:
            break
    assert min(runs) < 1.0


def test_the_measure_of_nesting_counts_blocks_and_not_elifs() -> None:
    source = "def f():\n if a:\n  pass\n elif b:\n  for x in y:\n   with z:\n    pass\n def g():\n  if c: pass\n"
    outer, inner = (node for node in ast.walk(ast.parse(source)) if isinstance(node, Function))
    assert nesting(outer) == 3
    assert nesting(inner) == 1
