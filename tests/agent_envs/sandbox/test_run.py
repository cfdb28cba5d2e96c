"""Ordinary code, run once: output, values, errors, limits."""

from __future__ import annotations

import time

import pytest

from agent_envs.errors import ConfigError
from agent_envs.sandbox import Execution, Limits, run_python
from agent_envs.sandbox.execution import OutputBuffer, cut
from tests.agent_envs.sandbox.isolated import needs_isolation

SHORT = Limits(timeout_s=1.0)


# In halves: Python converts no number of more than 4,300 digits, and that limit is the whole process's.
LONG_NUMBER = "{}{:02500d}".format(*divmod(2**20000 % 10**5000, 10**2500))


@needs_isolation
@pytest.mark.parametrize(
    ("code", "stdout", "value"),
    [
        ("print('a'); print('b', end='')", "a\nb", None),
        ("x = 20\nx + 22", "", "42"),
        ("'text'", "", "'text'"),
        ("None", "", None),
        ("''", "", "''"),
        ("print('ä€😀', '\\ud800')", "ä€😀 \\ud800\n", None),
        ("2 ** 20000 % 10 ** 5000", "", LONG_NUMBER),
        ("import sys\nsys.stdin.read()", "", "''"),
        ("def f(n): return n and n + f(n - 1)\nf(500)", "", "125250"),
        ("import os\nopen('f', 'w').write('x'); os.listdir()", "", "['f']"),
        (
            "import subprocess, sys\nsubprocess.run([sys.executable, '-c', 'print(1)'], check=True).returncode",
            "1\n",
            "0",
        ),
        ("import decimal, fractions, json, math, re, sqlite3, statistics\nmath.isqrt(10 ** 40)", "", str(10**20)),
        ("from multiprocessing.dummy import Pool\nPool(2).map(abs, [-1, -2])", "", "[1, 2]"),
        ("import asyncio\nasyncio.run(asyncio.sleep(0, 'slept'))", "", "'slept'"),
        ("if __name__ == '__main__': print('main')", "main\n", None),
        ("", "", None),
    ],
)
def test_output_and_value(code: str, stdout: str, value: str | None) -> None:
    execution = run_python(code, Limits(output_chars=6000))
    assert (execution.status, execution.stdout, execution.value) == ("ok", stdout, value), execution
    assert execution.error == ""


@needs_isolation
def test_a_traceback_shows_the_codes_own_lines() -> None:
    execution = run_python("print('before')\ndef divide(x):\n    return 1 / x\n\ndivide(0)")
    assert (execution.status, execution.stdout) == ("error", "before\n")
    lines = execution.error.splitlines()
    assert lines[0] == "Traceback (most recent call last):"
    assert lines[1] == '  File "<cell 1>", line 5, in <module>'
    assert lines[-1] == "ZeroDivisionError: division by zero"
    assert "    return 1 / x" in lines
    assert "worker" not in execution.error


@needs_isolation
@pytest.mark.parametrize(
    ("code", "ending"),
    [
        ("x = (", "SyntaxError: '(' was never closed"),
        ("null\0byte", "source code string cannot contain null bytes"),
        ("import sys; sys.exit('gone')", "SystemExit: gone"),
        ("raise KeyboardInterrupt", "KeyboardInterrupt"),
        ("import no_such_package", "ModuleNotFoundError: No module named 'no_such_package'"),
        ("raise ValueError('\\ud800')", "ValueError: \\ud800"),
    ],
)
def test_errors_of_every_kind_come_back_as_text(code: str, ending: str) -> None:
    execution = run_python(code)
    assert execution.status == "error"
    assert execution.error.endswith(ending)


@needs_isolation
def test_a_planned_exit_is_no_error() -> None:
    assert run_python("print(1); exit()\nprint(2)").stdout == "1\n"


@needs_isolation
def test_what_was_printed_before_the_time_ran_out_is_kept() -> None:
    start = time.monotonic()
    execution = run_python("print('so far')\nwhile True: pass", SHORT)
    assert (execution.status, execution.stdout) == ("timeout", "so far\n")
    assert execution.error == "the code ran longer than 1 s and was stopped"
    assert 1.0 <= execution.seconds < 2.0
    assert time.monotonic() - start < 5.0


@needs_isolation
def test_processor_time_is_limited_too() -> None:
    execution = run_python("while True: pass", Limits(timeout_s=30, cpu_s=1))
    assert execution.status == "timeout"
    assert "processor time" in execution.error


@needs_isolation
def test_memory_is_counted_per_process() -> None:
    allocate = "x = bytearray(80 * 2**20)\nlen(x)"
    assert run_python(allocate, Limits(memory_mb=64)).status == "memory"
    assert run_python(allocate, Limits(memory_mb=256)).value == str(80 * 2**20)


@needs_isolation
def test_output_keeps_its_head_and_tail() -> None:
    execution = run_python("for i in range(100000): print(i)", Limits(output_chars=100))
    assert execution.stdout.startswith("0\n1\n2\n")
    assert execution.stdout.endswith("99998\n99999\n")
    assert " cut ...]" in execution.stdout
    assert len(execution.stdout) < 200
    assert (
        run_python("'a' * 1000", Limits(output_chars=100)).value
        == "'" + "a" * 49 + "\n[... 902 characters cut ...]\n" + "a" * 49 + "'"
    )


@needs_isolation
def test_a_run_comes_out_the_same_again() -> None:
    code = "import random\n[random.random(), random.Random().random(), hash('text'), list({'a', 'b', 'c'})]"
    assert run_python(code).value == run_python(code).value != ""


@needs_isolation
def test_code_of_a_megabyte_gets_through() -> None:
    assert run_python("x = '" + "a" * 2**20 + "'\nlen(x)").value == str(2**20)


@needs_isolation
def test_chosen_packages_can_be_imported_and_no_others() -> None:
    code = "import numpy\nint(numpy.arange(4).sum())"
    assert run_python(code, packages=("numpy",)).value == "6"
    assert "No module named 'numpy'" in run_python(code).error
    assert "No module named 'pydantic'" in run_python("import pydantic", packages=("numpy",)).error


@pytest.mark.parametrize(("package", "words"), [("agent_envs", "gold answers"), ("no_such", "not installed")])
@needs_isolation
def test_packages_that_must_not_or_can_not_be_shown_are_refused(package: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        run_python("1", packages=(package,))


@pytest.mark.parametrize(
    "wrong",
    [
        {"timeout_s": 0.0},
        {"timeout_s": float("inf")},
        {"memory_mb": 1},
        {"processes": 0},
        {"cpu_s": 0},
        {"output_chars": 1},
    ],
)
def test_limits_that_make_no_sense_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ConfigError, match=next(iter(wrong))):
        Limits(**wrong)  # type: ignore[arg-type]


def test_an_unknown_level_is_refused() -> None:
    with pytest.raises(ConfigError, match="'require', 'best-effort', not 'none'"):
        run_python("1", isolation="none")


@pytest.mark.parametrize("sizes", [[5], [400], [401], [1000], [3, 400, 50], [100] * 30, [1] * 5000])
def test_an_output_buffer_keeps_the_first_and_last_characters(sizes: list[int]) -> None:
    buffer = OutputBuffer(100)
    text = "".join(chr(ord("a") + i % 26) for i in range(sum(sizes)))
    position = 0
    for size in sizes:
        buffer.add(text[position : position + size].encode())
        position += size
    if len(text) <= 100:
        assert buffer.text() == text
    else:
        head, mark, tail = buffer.text().split("\n")
        assert (head, tail) == (text[:50], text[-50:])
        assert f"{len(text) - 100} " in mark


def test_cutting_says_how_much_is_missing() -> None:
    assert cut("abcdefghij", 4) == "ab\n[... 6 characters cut ...]\nij"
    assert cut("abcd", 4) == "abcd"


def test_an_execution_is_plain_data() -> None:
    assert Execution("ok") == Execution("ok", "", "", None, "", 0.0, False)
