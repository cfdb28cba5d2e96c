"""HotpotQA's own file format, and every set that shares it (2WikiMultihopQA's fields include HotpotQA's).

A row has ``_id``, ``question``, ``answer``, ``type``, ``supporting_facts`` as ``[title, sentence index]`` pairs and
``context`` as ``[title, [sentence, ...]]`` pairs. The distractor setting has ten paragraphs a question, the gold ones
among them; in the fullwiki setting gold paragraphs may be missing. The copy on the Hugging Face Hub turns pairs into
parallel lists (``{"title": [...], "sentences": [...]}``) and calls the id ``id``; rows of either layout are read.

Data: Yang et al. 2018, CC BY-SA 4.0; not shipped with this project.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from agent_envs.data.hub import hub_rows, hub_source
from agent_envs.data.records import Passage, Question
from agent_envs.data.rows import Row, read_rows, require_unique_ids
from agent_envs.errors import DataError

HUB_NAME = "hotpotqa/hotpot_qa"


@dataclass(frozen=True, slots=True)
class _Paragraph:
    title: str
    sentences: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Draft:
    """A checked row whose sentences are not joined yet."""

    where: str
    task_id: str
    question: str
    answer: str
    kind: str
    supporting_facts: tuple[tuple[str, int], ...]
    paragraphs: tuple[_Paragraph, ...]


def read_hotpotqa(path: str | Path) -> tuple[Question, ...]:
    """The questions of an official file: a JSON array or JSON Lines, distractor or fullwiki, in the file's order.

    Raises:
        DataError: the file is missing, empty or malformed; the message names the row and the field.
    """
    return parse_questions(read_rows(path), str(path))


def read_hub(name: str = HUB_NAME, config: str = "distractor", split: str = "validation") -> tuple[Question, ...]:
    """The questions of a data set on the Hugging Face Hub (or of a local folder that ``datasets`` can load).

    Raises:
        DataError: it cannot be loaded, is empty or malformed.
        MissingExtraError: ``datasets`` is not installed.
    """
    return parse_questions(hub_rows(name, config, split), hub_source(name, config, split))


def parse_questions(rows: Iterable[Row], source: str) -> tuple[Question, ...]:
    """The questions of rows in either layout.

    The official sentences carry the spaces between them, those of 2WikiMultihopQA and of made-up sets do not: where no
    sentence of the set begins with a space, paragraphs are joined with one.

    Raises:
        DataError: there are no rows, a row is malformed, or two rows share an id.
    """
    drafts = [_draft(row) for row in rows]
    require_unique_ids([(draft.where, draft.task_id) for draft in drafts], source)
    separator = "" if any(sentence[:1].isspace() for sentence in _continuations(drafts)) else " "
    return tuple(_question(draft, separator) for draft in drafts)


def _continuations(drafts: Iterable[_Draft]) -> Iterator[str]:
    return (text for draft in drafts for paragraph in draft.paragraphs for text in paragraph.sentences[1:])


def _question(draft: _Draft, separator: str) -> Question:
    return Question(
        task_id=draft.task_id,
        question=draft.question,
        answers=(draft.answer,),
        kind=draft.kind,
        supporting_facts=draft.supporting_facts,
        passages=tuple(Passage(p.title, separator.join(p.sentences).strip()) for p in draft.paragraphs),
    )


def _draft(row: Row) -> _Draft:
    if "answer" not in row.fields:
        raise DataError(
            f"{row.where}: the field 'answer' is missing; a test file without gold answers cannot be scored"
        )
    return _Draft(
        where=row.where,
        task_id=row.text("_id" if "_id" in row.fields or "id" not in row.fields else "id"),
        question=row.text("question").strip(),
        answer=row.text("answer").strip(),
        kind=row.text("type"),
        supporting_facts=tuple(_supporting_facts(row)),
        paragraphs=tuple(_paragraphs(row)),
    )


def _supporting_facts(row: Row) -> Iterator[tuple[str, int]]:
    for place, (title, index) in row.tuples("supporting_facts", "title", "sent_id"):
        yield row.check_text(title, f"{place}[0]", blank=False), row.check_index(index, f"{place}[1]")


def _paragraphs(row: Row) -> Iterator[_Paragraph]:
    for place, (title, sentences) in row.tuples("context", "title", "sentences"):
        texts = row.check_list(sentences, f"{place}[1]")
        yield _Paragraph(
            row.check_text(title, f"{place}[0]", blank=False),
            tuple(row.check_text(text, f"{place}[1][{i}]") for i, text in enumerate(texts)),
        )
