"""2WikiMultihopQA's own file format: HotpotQA's fields, triples of evidence, and ids at Wikidata.

A row has HotpotQA's fields (see ``hotpotqa``) with the types ``compositional``, ``inference``, ``comparison`` and
``bridge_comparison``, and ``evidences``: ``[subject, relation, object]`` triples. The release with ids has
``answer_id`` too, and a file ``id_aliases.json`` (JSON Lines: ``Q_id``, ``aliases``, ``demonyms``), by which the
official evaluation accepts an answer's other names. Copies on the Hugging Face Hub hold nested fields as JSON text or
as columns, under other names here and there; rows of any of these layouts are read.

Data: Ho et al. 2020, Apache-2.0; not shipped with this project.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeAlias

from agent_envs.data.hotpotqa import parse_questions
from agent_envs.data.hub import hub_rows, hub_source
from agent_envs.data.records import Question
from agent_envs.data.rows import Row, read_rows

HUB_NAME = "xanhho/2WikiMultihopQA"

Aliases: TypeAlias = Mapping[str, tuple[str, ...]]
"""Other names of an answer, by its id at Wikidata."""

_NESTED = ("context", "supporting_facts", "evidences")
_COLUMN_NAMES = {"content": "sentences", "fact": "subject", "entity": "object"}


def read_two_wiki(path: str | Path, aliases: str | Path | None = None) -> tuple[Question, ...]:
    """The questions of an official file: a JSON array or JSON Lines, in the file's order.

    Args:
        path: of the set.
        aliases: of the official ``id_aliases.json``, for sets whose rows have an ``answer_id``.

    Raises:
        DataError: a file is missing, empty or malformed; the message names the row and the field.
    """
    return parse_two_wiki(read_rows(path), str(path), read_aliases(aliases))


def read_two_wiki_hub(
    name: str = HUB_NAME, split: str = "validation", aliases: str | Path | None = None
) -> tuple[Question, ...]:
    """The questions of a data set on the Hugging Face Hub (or of a local folder that ``datasets`` can load).

    Raises:
        DataError: it cannot be loaded, is empty or malformed.
        MissingExtraError: ``datasets`` is not installed.
    """
    return parse_two_wiki(hub_rows(name, None, split), hub_source(name, None, split), read_aliases(aliases))


def read_aliases(path: str | Path | None) -> Aliases | None:
    """The other names and the demonyms of each id; None without a file.

    Raises:
        DataError: the file is missing, empty or malformed.
    """
    if path is None:
        return None
    return {row.text("Q_id"): (*_names(row, "aliases"), *_names(row, "demonyms")) for row in read_rows(path)}


def _names(row: Row, field: str) -> tuple[str, ...]:
    return tuple(row.check_text(name, f"{field}[{index}]") for index, name in enumerate(row.items(field)))


def parse_two_wiki(rows: Iterable[Row], source: str, aliases: Aliases | None = None) -> tuple[Question, ...]:
    """The questions of rows in any of the layouts.

    Raises:
        DataError: there are no rows, a row is malformed, two rows share an id, or there are ``aliases`` but a row has
            no ``answer_id``.
    """
    plain = [_plain(row) for row in rows]
    return tuple(
        dataclasses.replace(
            question, answers=_answers(row, question.answers, aliases), evidences=tuple(_evidences(row))
        )
        for row, question in zip(plain, parse_questions(plain, source), strict=True)
    )


def _plain(row: Row) -> Row:
    """The row with nested fields as values instead of JSON text, and their columns under the names used here."""
    fields = dict(row.fields)
    for name in _NESTED:
        value = _decoded(row, name) if isinstance(fields.get(name), str) else fields.get(name)
        if isinstance(value, Mapping):
            value = {_COLUMN_NAMES.get(column, column): items for column, items in value.items()}
        if name in fields:
            fields[name] = value
    return Row(row.where, fields)


def _decoded(row: Row, field: str) -> Any:
    try:
        return json.loads(row.fields[field])
    except (ValueError, RecursionError) as error:
        raise row.mistake(field, "a list, or JSON text of one", row.fields[field]) from error


def _answers(row: Row, answers: tuple[str, ...], aliases: Aliases | None) -> tuple[str, ...]:
    if aliases is None:
        return answers
    answer_id = row.value("answer_id")  # null for dates, yes and no
    others = aliases.get(row.check_text(answer_id, "answer_id"), ()) if answer_id is not None else ()
    return tuple(dict.fromkeys((*answers, *(name for name in others if name.strip()))))


def _evidences(row: Row) -> Iterator[tuple[str, str, str]]:
    for place, values in row.tuples("evidences", "subject", "relation", "object"):
        subject, relation, target = (row.check_text(value, f"{place}[{i}]") for i, value in enumerate(values))
        yield subject, relation, target
