"""Answers of servers: the documents' forms, and every lie."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_envs.data.records import Passage
from agent_envs.retrieval.base import Hit
from agent_envs.retrieval.client_errors import RetrievalAnswerError
from agent_envs.retrieval.client_parsing import parse_result
from agent_envs.retrieval.server_app import render_result


def parsed(result: Any, num_queries: int = 1, top_k: int = 3) -> list[tuple[Hit, ...]]:
    return parse_result(json.dumps({"result": result}).encode(), num_queries, top_k)


@pytest.mark.parametrize(
    "document, passage",
    [
        ({"id": "7", "contents": '"Ada Roe"\nA writer.\nOf novels.'}, Passage("Ada Roe", "A writer.\nOf novels.")),
        ({"contents": "Ada Roe\nA writer."}, Passage("Ada Roe", "A writer.")),
        ({"contents": "no line break"}, Passage("no line break", "")),
        ({"contents": '"\nquote'}, Passage('"', "quote")),
        ({"contents": ""}, Passage("", "")),
        ({"title": "Ada Roe", "text": "A writer."}, Passage("Ada Roe", "A writer.")),
        ({"title": "Ada Roe", "text": "A writer.", "contents": "ignored\nignored"}, Passage("Ada Roe", "A writer.")),
        ({"text": "A writer."}, Passage("", "A writer.")),
        ({"title": "Ada Roe", "contents": "A writer."}, Passage("Ada Roe", "A writer.")),
        ({"title": 'A "B"\nC', "contents": '"A "B"\nC"\nA writer.'}, Passage('A "B"\nC', "A writer.")),
    ],
)
def test_a_documents_forms(document: dict[str, str], passage: Passage) -> None:
    assert parsed([[{"document": document, "score": 2}]]) == [(Hit(passage, 2.0),)]
    assert parsed([[document]]) == [(Hit(passage, 1.0),)]
    assert parsed([[{"document": document}, {"document": document}]]) == [(Hit(passage, 1.0), Hit(passage, 0.5))]


@given(
    st.lists(
        st.lists(
            st.builds(Hit, st.builds(Passage, st.text(), st.text()), st.floats(allow_nan=False, allow_infinity=False)),
            max_size=3,
        ),
        max_size=4,
    )
)
def test_what_the_server_writes_comes_back_as_it_was(hits: list[list[Hit]]) -> None:
    assert parse_result(render_result(hits, True), len(hits), 3) == [tuple(found) for found in hits]
    bare = parse_result(render_result(hits, False), len(hits), 3)
    assert [[hit.passage for hit in found] for found in bare] == [[hit.passage for hit in found] for found in hits]


DOCUMENT = {"contents": "a\nb"}


@pytest.mark.parametrize(
    "result, complaint",
    [
        ([], "0 lists of hits for 1 queries"),
        ([[], []], "2 lists of hits for 1 queries"),
        ("text", r"an object \{\"result\": \[...\]\}"),
        (None, "an object"),
        ([None], r"a list of hits as result\[0\]"),
        ([[DOCUMENT] * 4], "has 4 hits, not at most 3"),
        ([["text"]], r"an object as result\[0\]\[0\]"),
        ([[{"document": "text", "score": 1}]], r"an object as result\[0\]\[0\].document"),
        ([[{"document": {}, "score": 1}]], '"text" or "contents"'),
        ([[{"document": {"contents": 5}, "score": 1}]], r"text as result\[0\]\[0\].contents"),
        ([[{"document": {"title": [], "text": ""}, "score": 1}]], r"text as result\[0\]\[0\].title"),
        ([[{"document": DOCUMENT, "score": "high"}]], r"a number as result\[0\]\[0\].score"),
        ([[{"document": DOCUMENT, "score": True}]], "a number"),
        ([[{"document": DOCUMENT, "score": 10**400}]], "a finite number"),
    ],
)
def test_what_fits_no_search_is_an_error_that_says_where(result: Any, complaint: str) -> None:
    with pytest.raises(RetrievalAnswerError, match=complaint):
        parsed(result)


@pytest.mark.parametrize(
    "body, complaint",
    [
        (b"", "not JSON"),
        (b"<html>busy</html>", "not JSON.*it begins b'<html>"),
        (b'{"result": [[{"docu', "not JSON"),
        (b'{"result": [[{"document": {"contents": "\xff\xfe"}, "score": 1}]]}', "not valid UTF-8"),
        (b'{"result": [[{"document": {"contents": "a"}, "score": NaN}]]}', "NaN is no number of JSON"),
        (b'{"result": [[{"document": {"contents": "a"}, "score": -Infinity}]]}', "-Infinity is no number"),
        (b'{"result": [[{"document": {"contents": "a"}, "score": 1e999}]]}', "a finite number"),
        (b"[" * 200_000, "not JSON"),
        (b"1" * 5000, "not JSON"),
        (b"[]", "an object"),
        (b'{"results": []}', "an object"),
    ],
)
def test_what_is_no_answer_at_all_is_an_error(body: bytes, complaint: str) -> None:
    with pytest.raises(RetrievalAnswerError, match=complaint):
        parse_result(body, 1, 3)


def test_an_error_does_not_repeat_all_that_came() -> None:
    with pytest.raises(RetrievalAnswerError) as caught:
        parsed([["x" * 100_000]])
    assert len(str(caught.value)) < 300
