"""A corpus to search, read from a file: JSON Lines, a JSON array or Parquet, in the field names of the public corpora.

| rows with the fields | as in | become |
|---|---|---|
| ``title``, ``text`` | BEIR, this project | a passage |
| ``title``, ``text`` or ``sentences`` as a list | HotpotQA's abstracts | a passage, its sentences joined |
| ``contents`` | Search-R1 | a passage; the first line is its title, in double quotes |
| ``wikipedia_title``, ``text`` as a list | KILT | a passage for each paragraph |
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from agent_envs.data.records import Passage
from agent_envs.data.rows import Row, read_rows
from agent_envs.errors import DataError, MissingExtraError

_KILT_HEADING = "Section::::"
_BATCH_ROWS = 4096


def read_corpus(path: str | Path) -> tuple[Passage, ...]:
    """The passages of a file, each once, in order.

    Raises:
        DataError: the file is missing, empty or malformed; the message names the row and the field.
        MissingExtraError: the file is Parquet, and the extra ``retrieval`` is not installed.
    """
    passages = tuple(dict.fromkeys(stream_corpus(path)))
    if not passages:
        raise DataError(f"{path}: the corpus is empty; expected at least one passage with a title and a text")
    return passages


def stream_corpus(path: str | Path) -> Iterator[Passage]:
    """The passages of a file one by one, as often as they occur; neither JSON Lines nor Parquet is held in memory.

    Raises:
        DataError: the file is missing or malformed; the message names the row and the field.
        MissingExtraError: the file is Parquet, and the extra ``retrieval`` is not installed.
    """
    rows = _parquet_rows(Path(path)) if Path(path).suffix == ".parquet" else read_rows(path)
    return (passage for row in rows for passage in _passages(row))


def _passages(row: Row) -> Iterable[Passage]:
    if "wikipedia_title" in row.fields:
        return _kilt_passages(row)
    if "contents" in row.fields:
        title, _, text = row.text("contents").partition("\n")
        quoted = len(title) > 1 and title[0] == title[-1] == '"'
        return (Passage(title[1:-1] if quoted else title, text),)
    field = "sentences" if "sentences" in row.fields else "text"
    value = row.value(field)
    text = _joined(row, field, value) if isinstance(value, list) else row.check_text(value, field)
    return (Passage(row.text("title"), text),)


def _joined(row: Row, field: str, sentences: list[object]) -> str:
    """Sentences as a text, with one space between two where neither brings one."""
    texts = [row.check_text(sentence, f"{field}[{index}]") for index, sentence in enumerate(sentences)]
    spaced = any(text.startswith(" ") for text in texts[1:])
    return ("" if spaced else " ").join(texts).strip()


def _kilt_passages(row: Row) -> Iterator[Passage]:
    title = row.text("wikipedia_title")
    for index, value in enumerate(row.items("text")):
        text = row.check_text(value, f"text[{index}]").strip()
        if text and not text.startswith(_KILT_HEADING) and (index > 0 or text != title):
            yield Passage(title, text)


def _parquet_rows(path: Path) -> Iterator[Row]:
    try:
        import pyarrow.parquet as parquet
    except ImportError as error:
        raise MissingExtraError(f'{path}: a Parquet file needs pyarrow: pip install "agent-r1[retrieval]"') from error
    try:
        with parquet.ParquetFile(path) as file:
            rows = (fields for batch in file.iter_batches(_BATCH_ROWS) for fields in batch.to_pylist())
            for number, fields in enumerate(rows, start=1):
                yield Row(f"{path}, row {number}", fields)
    except (OSError, ValueError) as error:  # pyarrow's own errors are both
        raise DataError(f"{path}: expected a Parquet file, but it cannot be read: {error}") from error
