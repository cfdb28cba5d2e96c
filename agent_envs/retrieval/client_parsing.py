r"""From a server's answer to hits, believing nothing: an answer fits its search, or it is an error.

The documents of Search-R1's servers are ``{"contents": '"Title"\ntext'}``; other corpora have ``title`` and ``text``,
or ``title`` and ``contents``. A server that gives no scores, or bare documents, is understood too.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any, NoReturn

from agent_envs.data.records import Passage
from agent_envs.retrieval.base import Hit
from agent_envs.retrieval.client_errors import RetrievalAnswerError

_SHOWN = 80  # characters of what came


def parse_result(body: bytes, num_queries: int, top_k: int) -> list[tuple[Hit, ...]]:
    """The hits of each query.

    Raises:
        RetrievalAnswerError: the body is no result of so many queries with at most ``top_k`` hits each.
    """
    try:
        answer = json.loads(body.decode("utf-8"), parse_constant=_refuse_constant)
    except UnicodeDecodeError as error:
        raise RetrievalAnswerError(f"the server's answer is not valid UTF-8: {error}") from error
    except (ValueError, RecursionError) as error:
        raise RetrievalAnswerError(f"the server's answer is not JSON: {error}; it begins {body[:_SHOWN]!r}") from error
    lists = answer.get("result") if isinstance(answer, dict) else None
    if not isinstance(lists, list):
        _refuse('an object {"result": [...]}', answer, "the answer")
    if len(lists) != num_queries:
        raise RetrievalAnswerError(f"the server gave {len(lists)} lists of hits for {num_queries} queries")
    return [_hits(hits, f"result[{index}]", top_k) for index, hits in enumerate(lists)]


def _hits(entries: Any, where: str, top_k: int) -> tuple[Hit, ...]:
    if not isinstance(entries, list):
        _refuse("a list of hits", entries, where)
    if len(entries) > top_k:
        raise RetrievalAnswerError(f"{where} of the server's answer has {len(entries)} hits, not at most {top_k}")
    return tuple(_hit(entry, f"{where}[{rank}]", rank) for rank, entry in enumerate(entries))


def _hit(entry: Any, where: str, rank: int) -> Hit:
    if not isinstance(entry, dict):
        _refuse("an object", entry, where)
    wrapped = "document" in entry
    document = entry["document"] if wrapped else entry
    if not isinstance(document, dict):
        _refuse("an object", document, f"{where}.document")
    score = entry.get("score") if wrapped else None
    return Hit(_passage(document, where), 1.0 / (rank + 1) if score is None else _score(score, where))


def _score(score: Any, where: str) -> float:
    if isinstance(score, bool) or not isinstance(score, int | float):
        _refuse("a number", score, f"{where}.score")
    try:
        value = float(score)
    except OverflowError:
        value = math.inf
    if not math.isfinite(value):
        _refuse("a finite number", value, f"{where}.score")
    return value


def _passage(document: Mapping[str, Any], where: str) -> Passage:
    fields = {name: document.get(name) for name in ("title", "text", "contents")}
    for name, value in fields.items():
        if value is not None and not isinstance(value, str):
            _refuse("text", value, f"{where}.{name}")
    title, text, contents = fields["title"], fields["text"], fields["contents"]
    if text is not None:
        return Passage(title or "", text)
    if contents is None:
        _refuse('"text" or "contents"', dict(document), where)
    if title is None:
        first, _, rest = contents.partition("\n")
        return Passage(_unquoted(first), rest)
    return Passage(title, contents.removeprefix(f'"{title}"\n'))


def _unquoted(line: str) -> str:
    return line[1:-1] if len(line) > 1 and line[0] == line[-1] == '"' else line


def _refuse(expected: str, came: Any, where: str) -> NoReturn:
    shown = repr(came)
    shown = shown if len(shown) <= _SHOWN else f"{shown[:_SHOWN]}..."
    raise RetrievalAnswerError(f"expected {expected} as {where} of the server's answer, got {shown}")


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number of JSON")
