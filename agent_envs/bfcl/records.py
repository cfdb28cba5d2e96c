"""BFCL's items: what the user says, which functions there are, and what is right."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from agent_envs.bfcl.package import VERSION, data_folder, function_doc_file
from agent_envs.data.rows import Row, read_rows
from agent_envs.errors import DataError

# Our names of the categories, and the package's names of their files.
CATEGORIES = {
    "simple": "simple_python",
    "multiple": "multiple",
    "parallel": "parallel",
    "multi_turn_base": "multi_turn_base",
}


@dataclass(frozen=True, slots=True, eq=False)
class BfclItem:
    """One test of the leaderboard.

    Attributes:
        task_id: such as ``parallel_7``.
        category: the package's name for it, such as ``simple_python``.
        user_turns: what the user says, in order; one text for single-turn tests.
        functions: the descriptions of the functions, as the package writes them.
        answer: of a single-turn test: the right calls, each argument with all its allowed values. Of a multi-turn test:
            for each user turn, the right calls as Python.
        api_names: the classes of the simulated APIs, for multi-turn tests.
        initial_config: the scenario of each API by class name.
    """

    task_id: str
    category: str
    user_turns: tuple[str, ...]
    functions: tuple[Mapping[str, Any], ...]
    answer: tuple[Any, ...]
    api_names: tuple[str, ...] = ()
    initial_config: Mapping[str, Any] = field(default_factory=dict)

    @property
    def multi_turn(self) -> bool:
        """Whether tools run and the user speaks again."""
        return bool(self.api_names)


@functools.lru_cache(maxsize=len(CATEGORIES))
def read_category(category: str) -> tuple[BfclItem, ...]:
    """The tests of a category, by our name for it; read once per process.

    Raises:
        MissingExtraError: the package is not installed.
        DataError: its files are not as expected.
    """
    name = CATEGORIES[category]
    file = data_folder() / f"BFCL_v4_{name}.json"
    answers_file = data_folder() / "possible_answer" / file.name
    if not file.is_file():
        raise DataError(f"{file} is missing; expected the data of bfcl-eval=={VERSION}, so install that version")
    answers = {row.text("id"): tuple(row.items("ground_truth")) for row in read_rows(answers_file)}
    return tuple(_read_item(row, name, answers) for row in read_rows(file))


def _read_item(row: Row, category: str, answers: Mapping[str, tuple[Any, ...]]) -> BfclItem:
    task_id = row.text("id")
    if task_id not in answers:
        raise DataError(f"{row.where}: there is no answer with the id {task_id!r}")
    said = tuple("\n".join(message["content"] for message in turn) for turn in row.items("question"))
    if "involved_classes" not in row.fields:
        return BfclItem(task_id, category, said, tuple(row.items("function")), answers[task_id])
    names = tuple(row.items("involved_classes"))
    functions = tuple(doc for name in names for doc in _api_functions(name))
    return BfclItem(task_id, category, said, functions, answers[task_id], names, row.value("initial_config"))


@functools.lru_cache(maxsize=32)
def _api_functions(api_name: str) -> tuple[Mapping[str, Any], ...]:
    file = data_folder() / "multi_turn_func_doc" / function_doc_file(api_name)
    return tuple(row.fields for row in read_rows(file))
