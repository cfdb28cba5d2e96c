"""Corpora in the field names of the public ones, plain, compressed and as Parquet."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from agent_envs.data.corpus import read_corpus, stream_corpus
from agent_envs.data.records import Passage
from agent_envs.errors import DataError


def written(folder: Path, *rows: dict[str, Any], name: str = "corpus.jsonl") -> Path:
    path = folder / name
    text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    path.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
    return path


@pytest.mark.parametrize(
    ("row", "passages"),
    [
        ({"title": "Élan", "text": "A town."}, [Passage("Élan", "A town.")]),
        ({"_id": "7", "title": "Élan", "text": "A town.", "metadata": {}}, [Passage("Élan", "A town.")]),
        ({"id": "7", "contents": '"Élan"\nA town.\nBy the sea.'}, [Passage("Élan", "A town.\nBy the sea.")]),
        ({"id": "7", "contents": 'The "Élan"\nA town.'}, [Passage('The "Élan"', "A town.")]),
        ({"id": "7", "contents": "A title alone"}, [Passage("A title alone", "")]),
        ({"title": "Élan", "text": ["A town.", " By the sea."]}, [Passage("Élan", "A town. By the sea.")]),
        ({"title": "Élan", "sentences": ["A town.", "By the sea."]}, [Passage("Élan", "A town. By the sea.")]),
        (
            {
                "wikipedia_id": "7",
                "wikipedia_title": "Élan",
                "text": ["Élan\n", "A town.\n", "Section::::Sea.", " ", "B."],
            },
            [Passage("Élan", "A town."), Passage("Élan", "B.")],
        ),
    ],
    ids=["plain", "beir", "search-r1", "search-r1-quotes-within", "search-r1-title", "hotpotqa", "sentences", "kilt"],
)
def test_each_public_corpus_is_read_by_its_field_names(
    row: dict[str, Any], passages: list[Passage], tmp_path: Path
) -> None:
    assert list(stream_corpus(written(tmp_path, row))) == passages


def test_a_compressed_file_is_the_same_corpus(tmp_path: Path) -> None:
    rows = [{"title": f"T{number}", "text": "x" * number} for number in range(50)]
    plain = read_corpus(written(tmp_path, *rows))
    assert read_corpus(written(tmp_path, *rows, name="corpus.jsonl.gz")) == plain
    assert len(plain) == 50


def test_a_damaged_compressed_file_is_a_data_error(tmp_path: Path) -> None:
    path = written(tmp_path, {"title": "A", "text": "b" * 500}, name="corpus.jsonl.gz")
    path.write_bytes(path.read_bytes()[:-12])
    with pytest.raises(DataError, match=r"corpus.jsonl.gz: expected a JSON file, but it cannot be read"):
        list(stream_corpus(path))


def test_parquet_is_read_row_by_row(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow", reason="needs the extra `retrieval`, which make test installs")
    parquet = pytest.importorskip("pyarrow.parquet", reason="needs the extra `retrieval`, which make test installs")
    path = tmp_path / "corpus.parquet"
    rows = [{"id": str(number), "contents": f'"T{number}"\ntext {number}'} for number in range(9)]
    parquet.write_table(pyarrow.Table.from_pylist(rows), path, row_group_size=4)
    assert list(stream_corpus(path)) == [Passage(f"T{number}", f"text {number}") for number in range(9)]
    path.write_bytes(b"no parquet")
    with pytest.raises(DataError, match="expected a Parquet file, but it cannot be read"):
        list(stream_corpus(path))


def test_passages_are_read_as_often_as_they_occur_and_kept_once(tmp_path: Path) -> None:
    path = written(tmp_path, {"title": "A", "text": "b"}, {"title": "A", "text": "c"}, {"title": "A", "text": "b"})
    assert len(list(stream_corpus(path))) == 3
    assert read_corpus(path) == (Passage("A", "b"), Passage("A", "c"))


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"name": "A", "text": "b"}, "line 1: the field 'title' is missing"),
        ({"title": "A"}, "line 1: the field 'text' is missing; found title"),
        ({"title": "A", "text": None}, "line 1: the field 'text': expected a string, found null"),
        ({"title": "A", "text": ["b", 7]}, r"line 1: the field 'text\[1\]': expected a string, found the number 7"),
        ({"contents": " "}, "line 1: the field 'contents': expected a string that is not blank"),
        ({"wikipedia_title": "A", "text": "b"}, "line 1: the field 'text': expected a list"),
    ],
)
def test_a_malformed_row_is_named(row: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=message):
        list(stream_corpus(written(tmp_path, row)))
