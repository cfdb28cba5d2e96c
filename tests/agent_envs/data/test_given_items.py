from __future__ import annotations

import json
from pathlib import Path

import pytest

from agent_envs.data.given_items import read_items
from agent_envs.errors import ConfigError, DataError

ROWS = [{"question": "1 + 1?", "answer": 2}, {"question": "2 + 2?", "answer": 4}]


def test_lists_files_and_generator_functions_give_the_same_items(tmp_path: Path) -> None:
    lines, array = tmp_path / "rows.jsonl", tmp_path / "rows.json"
    lines.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    array.write_text(json.dumps(ROWS))
    for source in (ROWS, tuple(ROWS), str(lines), lines, array, lambda: iter(ROWS)):
        assert list(read_items(source)) == ROWS  # type: ignore[arg-type]


def test_a_function_of_the_index_makes_items_when_they_are_asked_for() -> None:
    made: list[int] = []

    def make(index: int) -> dict[str, str]:
        made.append(index)
        return {"question": f"{index}?"}

    items = read_items(make, num_items=1_000_000)
    assert len(items) == 1_000_000
    assert made == []
    assert items[7] == {"question": "7?"}
    assert [item["question"] for item in items[2:4]] == ["2?", "3?"]
    assert made == [7, 2, 3]
    with pytest.raises(IndexError):
        items[1_000_000]


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ((row for row in ROWS), "can be read only once"),
        ({"question": "x"}, "expected a list of mappings"),
        (5, "expected a list of mappings"),
        (lambda: 5, "expected a list of mappings"),
    ],
)
def test_what_gives_no_items_is_refused(source: object, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        read_items(source)  # type: ignore[arg-type]


def test_num_items_goes_with_a_function_of_the_index_alone() -> None:
    with pytest.raises(ConfigError, match="num_items=3 belongs to"):
        read_items(ROWS, num_items=3)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([], "there are no items"),
        ([*ROWS, "text"], "item 2: expected a mapping"),
        ([{"answer": 2}], 'item 0: expected a text under "question", found None'),
        ([{"question": " "}], 'item 0: expected a text under "question"'),
    ],
)
def test_a_wrong_item_is_named(rows: list[object], message: str) -> None:
    with pytest.raises(DataError, match=message):
        read_items(rows)  # type: ignore[arg-type]


def test_a_wrong_row_of_a_file_is_named_with_its_line(tmp_path: Path) -> None:
    file = tmp_path / "rows.jsonl"
    file.write_text('{"question": "a?"}\n{"query": "b?"}\n')
    with pytest.raises(DataError, match=r"rows\.jsonl, line 2: expected a text"):
        read_items(file)


def test_a_made_item_is_checked_too() -> None:
    items = read_items(lambda index: {"question": index}, num_items=2)
    with pytest.raises(DataError, match="item 1: expected a text"):
        items[1]
