"""MuSiQue's own file format: JSON Lines with whole paragraphs, and each question taken apart into its hops.

A row has ``id`` (its beginning says how the hops hang together: ``2hop__``, ``3hop1__`` and so on), ``question``,
``answer``, ``answer_aliases``, ``answerable``, ``paragraphs`` (``idx``, ``title``, ``paragraph_text``,
``is_supporting``) and ``question_decomposition`` (``question``, ``answer``, ``paragraph_support_idx``). The copy on the
Hugging Face Hub is the same; lists of objects may also come as columns. MuSiQue-Full has every question twice under one
id, once without a paragraph that it needs: such rows are not ``answerable``.

Titles repeat among the paragraphs of a question, so gold paragraphs are known by title and text.

Data: Trivedi et al. 2022, CC BY 4.0; not shipped with this project.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from agent_envs.data.hub import hub_rows, hub_source
from agent_envs.data.records import Passage, Question, SubQuestion
from agent_envs.data.rows import Row, read_rows, require_unique_ids
from agent_envs.errors import DataError

HUB_NAME = "dgslibisey/MuSiQue"
UNANSWERABLE = ("skip", "error")
"""What to do with rows that have no answer in their paragraphs."""

_HOPS = re.compile(r"(\dhop\d*)__")


@dataclass(frozen=True, slots=True)
class _Paragraphs:
    """The paragraphs of a row by ``idx``, in order, and the ``idx`` of those marked as supporting."""

    by_index: Mapping[int, Passage]
    supporting: tuple[int, ...]


def read_musique(path: str | Path, unanswerable: str = "skip") -> tuple[Question, ...]:
    """The answerable questions of an official file, in the file's order.

    Args:
        path: of the set.
        unanswerable: "skip" leaves such rows out, "error" refuses a set that has one.

    Raises:
        DataError: the file is missing, empty or malformed; the message names the row and the field.
    """
    return parse_musique(read_rows(path), str(path), unanswerable)


def read_musique_hub(
    name: str = HUB_NAME, split: str = "validation", unanswerable: str = "skip"
) -> tuple[Question, ...]:
    """The answerable questions of a data set on the Hugging Face Hub (or of a local folder).

    Raises:
        DataError: it cannot be loaded, is empty or malformed.
        MissingExtraError: ``datasets`` is not installed.
    """
    return parse_musique(hub_rows(name, None, split), hub_source(name, None, split), unanswerable)


def parse_musique(rows: Iterable[Row], source: str, unanswerable: str = "skip") -> tuple[Question, ...]:
    """The questions of answerable rows.

    Raises:
        DataError: there are none, a row is malformed, two rows share an id, or a row is not answerable though
            ``unanswerable`` is "error".
    """
    kept = [row for row in rows if _is_answerable(row, unanswerable)]
    require_unique_ids([(row.where, row.text("id")) for row in kept], source)
    return tuple(_question(row) for row in kept)


def _is_answerable(row: Row, unanswerable: str) -> bool:
    """The field may be missing, as in sets that have answerable rows only."""
    answerable = row.fields.get("answerable", True)
    if not isinstance(answerable, bool):
        raise row.mistake("answerable", "true or false", answerable)
    if not answerable and unanswerable == "error":
        raise DataError(
            f'{row.where}: the question has no answer in its paragraphs; unanswerable="skip" leaves such rows out'
        )
    return answerable


def _question(row: Row) -> Question:
    paragraphs = _paragraphs(row)
    hops = [_hop(step, paragraphs) for step in row.objects("question_decomposition")]
    answer = row.text("answer").strip()
    aliases = (row.check_text(alias, f"answer_aliases[{i}]") for i, alias in enumerate(row.items("answer_aliases")))
    told = [hop.passage for hop in hops if hop.passage is not None]
    gold = tuple(dict.fromkeys([*told, *(paragraphs.by_index[index] for index in paragraphs.supporting)]))
    return Question(
        task_id=row.text("id"),
        question=row.text("question").strip(),
        answers=tuple(dict.fromkeys([answer, *(alias for alias in aliases if alias.strip())])),
        kind=_kind(row.text("id"), len(hops)),
        supporting_facts=tuple((passage.title, 0) for passage in gold),
        passages=tuple(paragraphs.by_index.values()),
        gold_passages=gold,
        decomposition=tuple(hops),
    )


def _kind(task_id: str, hops: int) -> str:
    found = _HOPS.match(task_id)
    return found[1] if found else f"{hops}hop"


def _paragraphs(row: Row) -> _Paragraphs:
    by_index: dict[int, Passage] = {}
    supporting = []
    for paragraph in row.objects("paragraphs"):
        index = paragraph.check_index(paragraph.value("idx"), "idx")
        if index in by_index:
            raise paragraph.mistake("idx", "a number that no paragraph before it has", index)
        by_index[index] = Passage(paragraph.text("title"), paragraph.text("paragraph_text"))
        if _flag(paragraph, "is_supporting"):
            supporting.append(index)
    return _Paragraphs(by_index, tuple(supporting))


def _flag(row: Row, field: str) -> bool:
    value = row.value(field)
    if not isinstance(value, bool):
        raise row.mistake(field, "true or false", value)
    return value


def _hop(step: Row, paragraphs: _Paragraphs) -> SubQuestion:
    index = step.value("paragraph_support_idx")
    if index is not None and step.check_index(index, "paragraph_support_idx") not in paragraphs.by_index:
        raise step.mistake("paragraph_support_idx", "the idx of a paragraph, or null", index)
    passage = None if index is None else paragraphs.by_index[index]
    return SubQuestion(step.text("question"), step.text("answer"), passage)
