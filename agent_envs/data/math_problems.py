r"""Problems with one answer, and the files of MATH, AIME, DAPO and their like.

A row has a question ("problem", "question" or "prompt") and an answer ("answer" or "final_answer", text or a number);
behind the "####" of a GSM8K rationale it counts alone; without one, the answer is what the last ``\boxed{...}`` of its
"solution" holds. An "id", "unique_id" or "ID" is kept; rows without one are named by their source and number, from 0.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from agent_envs.data.hub import hub_rows
from agent_envs.data.rows import Row, read_rows
from agent_envs.errors import DataError

_QUESTION_FIELDS = ("problem", "question", "prompt")
_ANSWER_FIELDS = ("answer", "final_answer")
_ID_FIELDS = ("unique_id", "id", "ID")
_KIND_FIELDS = ("subject", "type", "kind")
_BOXED = re.compile(r"\\boxed\s*\{")


@dataclass(frozen=True, slots=True)
class MathProblem:
    """A question and its answer.

    Attributes:
        task_id: unique within its set.
        question: as the policy reads it.
        answer: the gold answer as its set writes it.
        solution: how the set works it out; "" where it does not say.
        kind: the set's own subject or template; "" where it has none.
        program: Python that prints the answer, for an oracle; "" where there is none.
    """

    task_id: str
    question: str
    answer: str
    solution: str = ""
    kind: str = ""
    program: str = ""

    @property
    def answers(self) -> tuple[str]:
        """The accepted answer, as the sets of questions have it."""
        return (self.answer,)


def read_math(path: str | Path) -> tuple[MathProblem, ...]:
    """The problems of a JSON array or JSON Lines, in the file's order.

    Raises:
        DataError: the file is missing, empty or malformed; the message names the row and the field.
    """
    return checked((parse_math(row, index, Path(path).stem) for index, row in enumerate(read_rows(path))), str(path))


def read_math_hub(name: str, config: str | None, split: str) -> tuple[MathProblem, ...]:
    """The problems of a data set on the Hugging Face Hub.

    Raises:
        DataError: it cannot be loaded, is empty or malformed.
        MissingExtraError: ``datasets`` is not installed.
    """
    rows = hub_rows(name, config, split)
    return checked((parse_math(row, index, split) for index, row in enumerate(rows)), f"{name} ({split})")


def parse_math(row: Row, index: int, source: str) -> MathProblem:
    """The problem of one row.

    Raises:
        DataError: the row has no question, no answer, or one of another type.
    """
    question_field = next((field for field in _QUESTION_FIELDS if field in row.fields), _QUESTION_FIELDS[0])
    solution = row.fields.get("solution", "")
    kind = next((str(row.fields[field]) for field in _KIND_FIELDS if row.fields.get(field)), "")
    return MathProblem(
        task_id=_task_id(row, index, source),
        question=row.text(question_field).strip(),
        answer=_answer(row),
        solution=solution if isinstance(solution, str) else "",
        kind=kind,
    )


def checked(problems: Iterable[MathProblem], source: str) -> tuple[MathProblem, ...]:
    """The problems, if there is one and no two share an id.

    Raises:
        DataError: otherwise.
    """
    found = tuple(problems)
    if not found:
        raise DataError(f"{source}: the set is empty; expected at least one problem")
    seen: set[str] = set()
    for problem in found:
        if problem.task_id in seen:
            raise DataError(f"{source}: the id {problem.task_id!r} is used twice")
        seen.add(problem.task_id)
    return found


def last_boxed(text: str) -> str | None:
    r"""What the last ``\boxed{...}`` holds, or None where there is none or its braces don't close."""
    starts = [found.end() for found in _BOXED.finditer(text)]
    if not starts:
        return None
    depth = 1
    for position in range(starts[-1], len(text)):
        depth += {"{": 1, "}": -1}.get(text[position], 0)
        if depth == 0:
            return text[starts[-1] : position].strip()
    return None


def _task_id(row: Row, index: int, source: str) -> str:
    for field in _ID_FIELDS:
        value = row.fields.get(field)
        if isinstance(value, str | int) and str(value):
            return str(value)
    return f"{source}/{index}"


def _behind_rationale(text: str) -> str:
    """The answer alone, where it stands behind a rationale as in GSM8K."""
    return text.rpartition("\n#### ")[2].strip()


def _answer(row: Row) -> str:
    for field in _ANSWER_FIELDS:
        if field in row.fields:
            value = row.fields[field]
            return str(value) if isinstance(value, int | float) else _behind_rationale(row.text(field))
    if "solution" not in row.fields:
        raise DataError(
            f"{row.where}: the field 'answer' is missing, and there is no 'solution' with a \\boxed answer; "
            f"found {', '.join(row.fields) or 'none'}"
        )
    boxed = last_boxed(row.text("solution"))
    if not boxed:
        raise row.mistake(
            "solution", "a text with the answer in \\boxed{...}, or a field 'answer'", row.value("solution")
        )
    return boxed
