"""GSM8K's own file format: word problems whose answers show the work.

A row has a "question" and an "answer": the rationale, with calculator annotations such as ``<<48/2=24>>``, and the gold
number on its last line behind ``####``.

Data: Cobbe et al. 2021 (arXiv 2110.14168), MIT licence; not shipped with this project.
"""

from __future__ import annotations

import re
from pathlib import Path

from agent_envs.data.hub import hub_rows
from agent_envs.data.math_problems import MathProblem, checked
from agent_envs.data.rows import Row, read_rows
from agent_envs.numbers import find_number

HUB_NAME = "openai/gsm8k"
HUB_CONFIG = "main"

_ANNOTATION = re.compile(r"<<([^<>]*)=([^<>=]*)>>")


def read_gsm8k(path: str | Path) -> tuple[MathProblem, ...]:
    """The problems of an official file, JSON Lines (or a JSON array), in the file's order.

    Raises:
        DataError: the file is missing, empty or malformed; the message names the row and the field.
    """
    return checked((parse_gsm8k(row, index, Path(path).stem) for index, row in enumerate(read_rows(path))), str(path))


def read_gsm8k_hub(name: str = HUB_NAME, config: str = HUB_CONFIG, split: str = "test") -> tuple[MathProblem, ...]:
    """The problems of the copy on the Hugging Face Hub.

    Raises:
        DataError: it cannot be loaded, is empty or malformed.
        MissingExtraError: ``datasets`` is not installed.
    """
    rows = hub_rows(name, config, split)
    return checked((parse_gsm8k(row, index, split) for index, row in enumerate(rows)), f"{name} ({config}, {split})")


def parse_gsm8k(row: Row, index: int, source: str) -> MathProblem:
    """The problem of one row, called ``source/index``.

    Raises:
        DataError: a field is missing, or the answer has no number behind ``####``.
    """
    text = row.text("answer")
    solution, mark, gold = text.rpartition("####")
    if not mark or find_number(gold) is None:
        raise row.mistake("answer", "a rationale that ends in a line '#### number'", text[-40:])
    return MathProblem(f"{source}/{index}", row.text("question").strip(), gold.strip(), solution.strip())


def worked_steps(solution: str) -> tuple[tuple[str, str], ...]:
    """The worked steps of a rationale in order: what was calculated, and the value written behind it."""
    return tuple((expression.strip(), value.strip()) for expression, value in _ANNOTATION.findall(solution))
