"""Which files are read, and that the complaint about any other says where it is broken."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_envs.data.rows import Row, read_rows
from agent_envs.errors import DataError

ROWS = [{"a": 1}, {"a": "é\u2028\x00"}, {"a": [None]}]
LAYOUTS = {
    "array": json.dumps(ROWS),
    "indented array": json.dumps(ROWS, indent=2, ensure_ascii=False),
    "lines": "\n".join(json.dumps(row) for row in ROWS),
    "lines ended by CR LF": "".join(json.dumps(row) + "\r\n" for row in ROWS),
    "blank lines between": "\n\n" + "\n \n".join(json.dumps(row, ensure_ascii=False) for row in ROWS) + "\n\n",
    "space around an array": f"\n  {json.dumps(ROWS)} \n",
}


def write(folder: Path, content: str | bytes) -> Path:
    path = folder / "set.json"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"], ids=["plain", "with a byte order mark"])
def test_arrays_and_lines_give_the_same_rows(tmp_path: Path, layout: str, mark: bytes) -> None:
    path = write(tmp_path, mark + LAYOUTS[layout].encode())
    assert [row.fields for row in read_rows(path)] == ROWS


def test_rows_say_where_they_stand(tmp_path: Path) -> None:
    assert [row.where for row in read_rows(write(tmp_path, "[{}, {}]"))] == [
        f"{tmp_path}/set.json, row 1",
        f"{tmp_path}/set.json, row 2",
    ]
    assert [row.where.rpartition(", ")[2] for row in read_rows(write(tmp_path, "{}\n\n{}\n"))] == ["line 1", "line 3"]


def test_lines_are_streamed(tmp_path: Path) -> None:
    rows = read_rows(write(tmp_path, '{"a": 1}\nbroken'))
    assert next(rows).fields == {"a": 1}
    with pytest.raises(DataError, match="line 2: broken JSON"):
        next(rows)


def test_an_empty_array_has_no_rows(tmp_path: Path) -> None:
    assert list(read_rows(write(tmp_path, "[ ]\n"))) == []


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ("", r"set\.json: the file is empty"),
        (" \n\t", "the file is empty"),
        ("<html>", "expected a JSON array or JSON Lines in UTF-8, found a file that begins b'<html>'"),
        (b"\x1f\x8b\x08\x00", "found a file that begins"),
        ('{"a": 1}\n[2]\n', "line 2: expected an object, found a list"),
        ('{"a": 1}\n{"a": \n', "line 2: broken JSON, expecting value: found the end of the text"),
        ('{"a": 1} {"b": 2}\n', "line 1: expected one JSON object, found behind it the string '{\"b\": 2}'"),
        ('{\n "a": 1\n}\n', "line 1: broken JSON, expecting property name"),
        ('[{"a": 1}, 7]', "row 2: expected an object, found the number 7"),
        ('[{"a": 1}, {"a" 1}]', "row 2: broken JSON, expecting ':' delimiter: found the string '1}]'"),
        ('[{"a": 1}, ', "row 2: broken JSON, expecting value: found the end of the text"),
        ('[{"a": 1}', "row 1: expected a comma or the array's end behind it, found the end of the text"),
        ('[{"a": 1},]', "row 2: broken JSON"),
        ('[{"a": 1} {"a": 2}]', "row 1: expected a comma or the array's end behind it, found the string '{"),
        ('[{"a": 1}] more', "expected nothing behind the JSON array, found the string 'more'"),
        ("[]]", "expected nothing behind the JSON array, found the string ']'"),
        ("[", "row 1: broken JSON"),
        ('{"a": 1}\n{"a": "caf\xe9"}\n'.encode("latin-1"), "line 2: expected UTF-8, found the byte 0xe9"),
        ('[{"a": 1},\n{"a": "caf\xe9"}]'.encode("latin-1"), r"set\.json, line 2: expected UTF-8, found the byte 0xe9"),
        ('[{"a": 1}]'.encode("utf-16"), "expected a JSON array or JSON Lines in UTF-8"),
        ('{"a": ' + "[" * 100_000 + "\n", "line 1: "),
        ('{"a": ' + "9" * 10_000 + "}\n", "line 1: the JSON cannot be read: Exceeds the limit"),
    ],
)
def test_a_broken_file_is_an_error_that_says_where(tmp_path: Path, content: str | bytes, complaint: str) -> None:
    with pytest.raises(DataError, match=complaint):
        list(read_rows(write(tmp_path, content)))


def test_what_is_no_readable_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"absent\.json: expected a JSON file, but it cannot be read: No such file"):
        list(read_rows(tmp_path / "absent.json"))
    with pytest.raises(DataError, match="cannot be read: Is a directory"):
        list(read_rows(tmp_path))


@given(data=st.data())
def test_cutting_or_changing_a_file_gives_rows_or_a_data_error(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    content = LAYOUTS[data.draw(st.sampled_from(sorted(LAYOUTS)))].encode()
    start = data.draw(st.integers(0, len(content)))
    stop = data.draw(st.integers(start, len(content)))
    path = write(tmp_path_factory.getbasetemp(), content[:start] + data.draw(st.binary(max_size=3)) + content[stop:])
    try:
        assert all(isinstance(row.fields, dict) for row in read_rows(path))
    except DataError as error:
        assert str(path) in str(error)


def test_fields_are_checked_and_named() -> None:
    row = Row("f, row 4", {"text": "x", "blank": " ", "number": 3, "list": [1], "null": None, "half": "a\ud800"})
    assert row.text("text") == "x"
    assert row.items("list") == [1]
    assert row.check_index(row.value("number"), "number") == 3
    for call, complaint in (
        (lambda: row.text("absent"), "f, row 4: the field 'absent' is missing; found text, blank, "),
        (lambda: row.text("blank"), "'blank': expected a string that is not blank, found the string ' '"),
        (lambda: row.text("number"), "'number': expected a string that is not blank, found the number 3"),
        (lambda: row.text("null"), "found null"),
        (lambda: row.text("half"), "expected valid Unicode"),
        (lambda: row.items("text"), "'text': expected a list, found the string 'x'"),
        (lambda: row.check_index(True, "flag"), "expected an integer >= 0, found true or false"),
        (lambda: row.check_index(-1, "index"), "expected an integer >= 0, found the number -1"),
        (lambda: row.check_index(1.0, "index"), "expected an integer >= 0, found the number 1.0"),
    ):
        with pytest.raises(DataError, match=complaint):
            call()


def test_objects_come_as_a_list_or_as_columns() -> None:
    row = Row("set, row 1", {"steps": [{"id": 1, "text": "a"}, {"id": 2, "text": "b"}]})
    columns = Row("set, row 1", {"steps": {"id": [1, 2], "text": ["a", "b"]}})
    assert row.objects("steps") == columns.objects("steps")
    assert [step.fields["text"] for step in row.objects("steps")] == ["a", "b"]
    assert row.objects("steps")[1].where == "set, row 1, field 'steps[1]'"
    assert Row("set", {"steps": {}}).objects("steps") == Row("set", {"steps": []}).objects("steps") == []
    with pytest.raises(DataError, match=r"'steps\[0\]': expected an object, found the number 3"):
        Row("set", {"steps": [3]}).objects("steps")


def test_tuples_come_as_a_list_or_as_columns() -> None:
    expected = [("facts[0]", ["A", 0]), ("facts[1]", ["B", 2])]
    assert Row("set", {"facts": [["A", 0], ["B", 2]]}).tuples("facts", "title", "place") == expected
    assert Row("set", {"facts": {"place": [0, 2], "title": ["A", "B"]}}).tuples("facts", "title", "place") == expected
    with pytest.raises(DataError, match=r"'facts\[0\]': expected a list of 2: title, place, found a list"):
        Row("set", {"facts": [["A"]]}).tuples("facts", "title", "place")
    with pytest.raises(DataError, match=r"'facts.place': expected a list as long as that of title \(2\)"):
        Row("set", {"facts": {"title": ["A", "B"], "place": [1]}}).tuples("facts", "title", "place")
