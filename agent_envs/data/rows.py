"""Rows of JSON files, read one by one, whose every complaint names the file, the row and the field.

A file is a JSON array of objects or JSON Lines; its first character tells which. Rows of an array are counted from 1,
those of JSON Lines by their line. A file whose name ends in .gz is decompressed as it is read.
"""

from __future__ import annotations

import gzip
import json
import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, cast

from agent_envs.errors import DataError

_SPACE = re.compile(r"[ \t\n\r]*")
_DECODER = json.JSONDecoder()
_JSON_NAMES = {dict: "an object", list: "a list", str: "a string", bool: "true or false", type(None): "null"}


@dataclass(frozen=True, slots=True)
class Row:
    """A JSON object and where it stands, such as ``dev.json, row 3``."""

    where: str
    fields: Mapping[str, Any]

    def value(self, field: str) -> Any:
        """The field's value.

        Raises:
            DataError: the row lacks the field.
        """
        if field not in self.fields:
            raise DataError(f"{self.where}: the field {field!r} is missing; found {', '.join(self.fields) or 'none'}")
        return self.fields[field]

    def text(self, field: str) -> str:
        """The field's value, a text that is not blank.

        Raises:
            DataError: it is missing, no string, blank, or not valid Unicode.
        """
        return self.check_text(self.value(field), field, blank=False)

    def items(self, field: str) -> list[Any]:
        """The field's value, a list.

        Raises:
            DataError: it is missing or no list.
        """
        return self.check_list(self.value(field), field)

    def objects(self, field: str) -> list[Row]:
        """The field's value, a list of objects, each a row of its own; or an object of their columns.

        Raises:
            DataError: it is missing or neither of the two, or the columns differ in length.
        """
        value = self.value(field)
        if isinstance(value, Mapping):
            value = [dict(zip(value, items, strict=True)) for items in self._transposed(field, tuple(value))]
        rows = []
        for index, item in enumerate(self.check_list(value, field)):
            if not isinstance(item, Mapping):
                raise self.mistake(f"{field}[{index}]", "an object", item)
            rows.append(Row(f"{self.where}, field '{field}[{index}]'", item))
        return rows

    def tuples(self, field: str, *columns: str) -> list[tuple[str, list[Any]]]:
        """The field's value, a list of lists with these items; or an object of their columns.

        Returns:
            Each list behind the place where it stands, such as ``context[2]``.

        Raises:
            DataError: it is missing or neither of the two, or a length is wrong.
        """
        value = self.value(field)
        if isinstance(value, Mapping):
            value = self._transposed(field, columns)
        for index, item in enumerate(self.check_list(value, field)):
            if not isinstance(item, list) or len(item) != len(columns):
                raise self.mistake(f"{field}[{index}]", f"a list of {len(columns)}: {', '.join(columns)}", item)
        return [(f"{field}[{index}]", item) for index, item in enumerate(value)]

    def _transposed(self, field: str, columns: Sequence[str]) -> list[list[Any]]:
        table = Row(f"{self.where}, field {field!r}", self.value(field))
        lists = [table.items(column) for column in columns]
        for column, items in zip(columns, lists, strict=True):
            if len(items) != len(lists[0]):
                expected = f"a list as long as that of {columns[0]} ({len(lists[0])})"
                raise self.mistake(f"{field}.{column}", expected, items)
        return [list(items) for items in zip(*lists, strict=True)]

    def check_list(self, value: Any, field: str) -> list[Any]:
        """The value, if it is a list; ``field`` says where it stands in the row, such as ``context[2][1]``."""
        if not isinstance(value, list):
            raise self.mistake(field, "a list", value)
        return value

    def check_text(self, value: Any, field: str, *, blank: bool = True) -> str:
        """The value, if it is a string of valid Unicode, and not blank unless ``blank`` allows it."""
        if not isinstance(value, str) or not (blank or value.strip()):
            raise self.mistake(field, "a string" if blank else "a string that is not blank", value)
        try:
            value.encode()
        except UnicodeEncodeError as error:
            raise self.mistake(field, "valid Unicode", value[error.start]) from error
        return value

    def check_index(self, value: Any, field: str) -> int:
        """The value, if it is an integer >= 0."""
        if not isinstance(value, int) or isinstance(value, bool) or value < 0:
            raise self.mistake(field, "an integer >= 0", value)
        return value

    def mistake(self, field: str, expected: str, found: Any) -> DataError:
        """An error about a field of this row, for the caller to raise."""
        return DataError(f"{self.where}: the field {field!r}: expected {expected}, found {_describe(found)}")


def require_unique_ids(ids: Sequence[tuple[str, str]], source: str) -> None:
    """Refuses a set without questions, or with two of one id.

    Args:
        ids: where each question stands, and its id.
        source: names the set.

    Raises:
        DataError: it is so.
    """
    if not ids:
        raise DataError(f"{source}: the set is empty; expected at least one question")
    first: dict[str, str] = {}
    for where, task_id in ids:
        if task_id in first:
            raise DataError(f"{where}: the id {task_id!r} was used before, in {first[task_id]}")
        first[task_id] = where


def read_rows(path: str | Path) -> Iterator[Row]:
    """The rows of a UTF-8 file; JSON Lines are streamed.

    Raises:
        DataError: the file cannot be read, is empty, is no UTF-8, or a row is no JSON object.
    """
    path = Path(path)
    try:
        with _opened(path) as file:
            start = file.read(4096).removeprefix(b"\xef\xbb\xbf").lstrip()
        if not start:
            raise DataError(f"{path}: the file is empty; expected a JSON array or JSON Lines")
        if start[:1] not in b"[{":
            raise DataError(
                f"{path}: expected a JSON array or JSON Lines in UTF-8, found a file that begins {start[:20]!r}"
            )
        yield from _array_rows(path) if start[:1] == b"[" else _line_rows(path)
    except (OSError, EOFError, zlib.error) as error:  # the latter two: a damaged .gz
        reason = getattr(error, "strerror", None) or error
        raise DataError(f"{path}: expected a JSON file, but it cannot be read: {reason}") from error


def _opened(path: Path) -> BinaryIO:
    return cast(BinaryIO, gzip.open(path)) if path.suffix == ".gz" else path.open("rb")


def _line_rows(path: Path) -> Iterator[Row]:
    with _opened(path) as file:
        for number, raw in enumerate(file, start=1):
            where = f"{path}, line {number}"
            line = _decoded(raw.removeprefix(b"\xef\xbb\xbf") if number == 1 else raw, where)
            if not line.strip():
                continue
            value, end = _parsed(line, _after_space(line, 0), where)
            if line[end:].strip():
                raise DataError(f"{where}: expected one JSON object, found behind it {_rest(line, end)}")
            yield _row(value, where)


def _array_rows(path: Path) -> Iterator[Row]:
    with _opened(path) as file:
        text = _decoded(file.read().removeprefix(b"\xef\xbb\xbf"), str(path))
    position = text.index("[")
    first = _after_space(text, position + 1)
    if text.startswith("]", first):
        position = first  # an empty array
    number = 0
    while text[position] != "]":
        number += 1
        where = f"{path}, row {number}"
        value, end = _parsed(text, _after_space(text, position + 1), where)
        yield _row(value, where)
        position = _after_space(text, end)
        if text[position : position + 1] not in (",", "]"):
            raise DataError(f"{where}: expected a comma or the array's end behind it, found {_rest(text, position)}")
    if text[position + 1 :].strip():
        raise DataError(f"{path}: expected nothing behind the JSON array, found {_rest(text, position + 1)}")


def _after_space(text: str, position: int) -> int:
    match = _SPACE.match(text, position)
    return match.end() if match else position


def _decoded(raw: bytes, where: str) -> str:
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        place = where if ", line " in where else f"{where}, line {line}"
        raise DataError(f"{place}: expected UTF-8, found the byte {raw[error.start]:#04x}; convert the file") from error


def _parsed(text: str, position: int, where: str) -> tuple[Any, int]:
    try:
        return _DECODER.raw_decode(text, position)
    except json.JSONDecodeError as error:
        raise DataError(f"{where}: broken JSON, {error.msg.lower()}: found {_rest(text, error.pos)}") from error
    except (RecursionError, ValueError) as error:  # nested too deeply, or an integer of thousands of digits
        raise DataError(f"{where}: the JSON cannot be read: {error}") from error


def _row(value: Any, where: str) -> Row:
    if not isinstance(value, dict):
        raise DataError(f"{where}: expected an object, found {_describe(value)}")
    return Row(where, value)


def _rest(text: str, position: int) -> str:
    rest = text[position : position + 50].strip()
    return _describe(rest) if rest else "the end of the text"


def _describe(value: Any) -> str:
    if isinstance(value, str):
        return f"the string {value[:40] + '...' if len(value) > 40 else value!r}"
    return _JSON_NAMES.get(type(value)) or f"the number {str(value)[:40]}"
