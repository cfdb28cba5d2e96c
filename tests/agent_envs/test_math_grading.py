"""Answers equal as mathematics are right, everything else is wrong, and nothing hangs or raises."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_envs import math_grading
from agent_envs.math_grading import equivalent

EQUAL = [
    ("1/2", "0.5"),
    (r"\frac{1}{2}", r"\dfrac12"),
    (r"\frac{3}{7}", "3/7"),
    ("2", "x = 2"),
    ("50", r"50\%"),
    ("1000", "1,000"),
    ("12", r"12\text{ cm}"),
    ("-3", "−3"),
    (r"90^\circ", "90"),
    ("7", r"\boxed{7}"),
    ("7", "$7$."),
    (r"\{1, 2\}", "2, 1"),
    (r"\{34, 85\}", "{85, 34}"),
    ("1,2", "2,1"),
    ("[1,2)", r"\left[1, 2\right)"),
    ("(1,2)", "(1, 2)"),
    (r"(-\infty,2)\cup(3,\infty)", r"(3,\infty)\cup(-\infty,2)"),
    (r"\sqrt{8}", r"2\sqrt2"),
    (r"\frac{7+\sqrt{13}}{2}", r"\frac{\sqrt{13}}{2}+\frac72"),
    ("x^2-1", "(x-1)(x+1)"),
    ("x>2", "2<x"),
    ("2^{10}", "1024"),
    (r"\begin{pmatrix}1\\2\end{pmatrix}", r"\begin{bmatrix}1\\2\end{bmatrix}"),
    (r"\text{even}", "Even"),
    ("B", r"\text{(b)}"),
    ("-1/2", r"\frac{1}{-2}"),
    ("2516_8", "2516"),
    ("2516_8", "2516_{8}"),
    (r"2 \pm \sqrt3", r"2 + \sqrt3, 2 - \sqrt3"),
    (r"\sqrt{2}", r"x = \sqrt 2"),
    (r"\sqrt{2}", r"\sqrt 2 \text{ cm}^2"),
    (r"\tan x", r"\frac{\sin x}{\cos x}"),
    (r"2\ln 3", r"\ln 9"),
    (r"x = \sqrt3 \text{ or } x = 5", r"x = 5 \text{ or } x = \sqrt3"),
    ("x^2", "f(x) = x^2"),
    ("y = 2x+3", "2x+3"),
    (r"\text{June 20}", "June 20"),
    ("1-2i", "-2i+1"),
    (r"e^2", "7.38905609893065"),
]
DIFFERENT = [
    ("2", "1, 2, 3"),
    ("2", "2, 2"),
    ("2", r"x = 2 \text{ or } x = 3"),
    ("2", r"1 \text{ or } 2"),
    ("1, 2", "1"),
    (r"\{1, 2\}", r"\{1, 2, 3\}"),
    (r"\{1, 2\}", "1, 2, 3"),
    ("(1,2)", "(2,1)"),
    ("(1,2)", "[1,2]"),
    ("0.5", r"50\%"),
    ("1", "0.9999999999"),
    ("0", "0.00000001"),
    (r"\frac{1}{3}", "0.333333"),
    (r"\sqrt{2}", "1.41421356"),
    (r"\pi", "3.14"),
    ("1024", "2^{10}"),
    ("3628800", "10!"),
    ("3", r"3\pi"),
    ("3", "3x"),
    ("12", "12_3"),
    ("p-q", "q-p"),
    ("x^2", "x^3"),
    ("x>2", r"x \geq 2"),
    (r"\text{even}", "neve"),
    (r"\text{even}", "odd"),
    ("B", "C"),
    (r"\sqrt{2}", r"\boxed{1}\boxed{\sqrt2}"),
    (r"\sqrt{2}", r"\sqrt{2}} or \boxed{3"),
    (r"\sqrt{2}", "all of them"),
    (r"\sqrt{2}", r"\sqrt{3} = \sqrt{2}"),
    (r"\sqrt{2}", r"x = 1 = \sqrt{2}"),
    (r"\frac{x^3}{3}", r"\int x^2 dx"),
    (r"\frac{\pi}{4}", r"\int_0^1 \frac{1}{1+x^2} dx"),
    ("2x", r"\frac{d}{dx} x^2"),
    (r"\frac{\sqrt{3}}{2}", r"\sin\frac{\pi}{3}"),
    (r"\frac{\pi}{4}", r"\arctan 1"),
    (r"2\sqrt{3}", r"\binom{4}{1}\frac{\sqrt{3}}{2}"),
    (r"2\sqrt{3}", r"2!\sqrt{3}"),
    (r"2\sqrt{3}", r"\log_{2}4 \sqrt{3}"),
    (r"\sqrt{2}", r"\sqrt{3} \equiv \sqrt{2}"),
    (r"\sqrt{2}", "\\sqrt{3} ≡ \\sqrt{2}"),
    (r"\sqrt{2}", r"\sqrt{2} \mod \sqrt{3}"),
    (r"\sqrt{2}", r"\sqrt{2} \text{ unless } \sqrt{3}"),
    (r"2 \pm \sqrt3", r"2 + \sqrt3"),
    ("2516_8", "2516_9"),
    (r"\text{June 20}", "July 20"),
    (r"6:00\text{ PM}", r"6:00\text{ AM}"),
    ("1-2i", "1+2i"),
    (r"\infty", r"-\infty"),
]


@pytest.mark.parametrize(("gold", "answer"), EQUAL)
def test_the_same_object_is_right(gold: str, answer: str) -> None:
    assert equivalent(answer, gold)


@pytest.mark.parametrize(("gold", "answer"), DIFFERENT)
def test_another_object_is_wrong(gold: str, answer: str) -> None:
    assert not equivalent(answer, gold)


@pytest.mark.parametrize("answer", [None, "", " ", r"\boxed{}", "$$", "x" * 501, "\x00\ud800", "(" * 100, "NaN", "inf"])
def test_no_answer_is_wrong(answer: str | None) -> None:
    assert not equivalent(answer, "3")
    assert not equivalent(answer, r"\sqrt{3}")


def test_an_answer_that_would_take_for_ever_is_wrong_in_bounded_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(math_grading, "LIMIT_S", 0.3)
    for answer in ("9^{9^{9^{9^{9}}}}", "10000000!", r"\sum_{n=1}^{10^{9}} \frac{1}{n}"):
        start = time.perf_counter()
        assert not equivalent(answer, r"\sqrt{5}")
        assert time.perf_counter() - start < 10
    assert equivalent(r"\sqrt{20} - \sqrt{5}", r"\sqrt{5}")  # and the next one is graded as ever


def test_threads_grade_as_the_main_thread_does() -> None:
    """math-verify's own time limit works in the main thread only."""
    verdicts: dict[int, tuple[bool, bool]] = {}

    def grade(number: int) -> None:
        gold = rf"\sqrt{{{number}}}"
        verdicts[number] = equivalent(rf"\frac{{\sqrt{{{4 * number}}}}}{{2}}", gold), equivalent(rf"2{gold}", gold)

    threads = [threading.Thread(target=grade, args=(number,)) for number in (23, 29, 31, 37, 41, 43)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert list(verdicts.values()) == [(True, False)] * 6


def test_a_comparing_process_that_was_killed_is_started_again() -> None:
    assert equivalent(r"2\sqrt{3}", r"\sqrt{12}")
    process = math_grading._comparer._process
    assert process is not None
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert equivalent(r"3\sqrt{3}", r"\sqrt{27}")


def test_a_forked_process_has_a_comparing_process_of_its_own() -> None:
    """Also where another thread of the parent was comparing at that moment."""
    script = (
        "import os, sys\n"
        "from agent_envs import math_grading as m\n"
        "assert m.equivalent('2*\\\\sqrt{3}', '\\\\sqrt{12}')\n"
        "m._comparer._lock.acquire()\n"
        "child = os.fork()\n"
        "if child == 0:\n"
        "    os._exit(0 if m.equivalent('3*\\\\sqrt{3}', '\\\\sqrt{27}') else 1)\n"
        "sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))\n"
    )
    done = subprocess.run([sys.executable, "-W", "error", "-c", script], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")


def test_grading_imports_no_sympy_into_this_process() -> None:
    script = (
        "import sys; from agent_envs.math_grading import equivalent\n"
        "assert equivalent('2*\\\\sqrt{3}', '\\\\sqrt{12}'); print('sympy' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == "False"


@given(st.text(max_size=40))
def test_no_text_raises_beside_a_number_or_a_word(text: str) -> None:
    assert equivalent(text, "72") in (True, False)
    assert equivalent(text, r"\text{even}") in (True, False)


@pytest.mark.slow
@given(st.text("xy12+-*/^(){}[]\\,.=<>_! sqrtfcpi", max_size=25))
def test_no_formula_raises(text: str) -> None:
    assert equivalent(text, r"\sqrt{x}") in (True, False)
