"""Functions by name: from modules and from files, with errors that say what to mend."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent_envs.errors import ConfigError
from agent_envs.named_functions import load_function, require_arguments


def test_a_function_of_a_module() -> None:
    assert load_function("json:loads", "judge")("[1]") == [1]


def test_files_of_one_name_do_not_mix(tmp_path: Path) -> None:
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "mine.py").write_text(f"def where():\n    return {folder!r}\n")
    loaded = [load_function(f"{tmp_path}/{folder}/mine.py:where", "judge") for folder in ("a", "b")]
    assert [function() for function in loaded] == ["a", "b"]
    assert load_function(f"{tmp_path}/a/mine.py:where", "judge") is loaded[0]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("json", "expected \"module:function\""),
        ("json:", "expected"),
        (":loads", "expected"),
        ("json:no_such", "no function 'no_such'"),
        ("no_such_module:f", "cannot import 'no_such_module'"),
        ("/nowhere/file.py:f", "cannot import"),
    ],
)  # fmt: skip
def test_what_cannot_be_loaded_is_named(name: str, words: str) -> None:
    with pytest.raises(ConfigError, match=f"judge: .*{words}"):
        load_function(name, "judge")


def test_a_file_that_breaks_is_reported_each_time(tmp_path: Path) -> None:
    file = tmp_path / "broken.py"
    file.write_text("raise OSError('no licence')\n")
    for _ in range(2):
        with pytest.raises(ConfigError, match="OSError: no licence"):
            load_function(f"{file}:f", "score")


def test_a_function_of_other_arguments_is_refused_before_it_is_needed() -> None:
    require_arguments(lambda question, answer, more=None: 0.0, "the judge", "the question", "the answer")
    require_arguments(max, "the judge", "the question")  # says nothing of its arguments
    with pytest.raises(ConfigError, match=r"the judge is called with the question, the answer, but .*missing"):
        require_arguments(lambda a, b, c: 0.0, "the judge", "the question", "the answer")
    with pytest.raises(ConfigError, match="is not a callable object"):
        require_arguments("em", "score", "the answer")  # type: ignore[arg-type]
