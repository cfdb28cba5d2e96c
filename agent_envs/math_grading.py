r"""Whether a mathematical answer equals the gold one: exactly, and only as a whole.

* A gold number wants a number: "1/2", "0.5", "\frac{1}{2}", "x = 0.5" and "0.5 cm" are equal, "2^{-1}" is a
  sum yet to be done, and "0.50001" is another number. ``numbers`` has the rules.
* A gold word ("\text{even}", "B") wants that word, whatever its case.
* Everything else (roots, expressions, sets, intervals, tuples, matrices, equations) is left to math-verify, in a
  process of its own with bounded time and memory; what it cannot decide in time is wrong.

A formula wants the work done: an integral, a sum, a limit, a derivative, a sine or a logarithm is no answer where the
gold one has none of its kind, or to repeat the question would do. (What else is equal is right, so a question that asks
for a form, such as "factor", is answered by itself.)

A list is no guess: "1, 2" matches neither 1 nor 2, and an answer may not name more parts than the gold one; nor is a
chain of equations, or a number to another base. Decimals of a formula count where 12 places are right. Two boxes, more
than 500 characters or an open bracket are no answer.
"""

from __future__ import annotations

import atexit
import json
import os
import re
import subprocess
import sys
import threading
from functools import lru_cache
from pathlib import Path

from agent_envs.data.math_problems import last_boxed
from agent_envs.errors import ToolFailureError
from agent_envs.numbers import read_number

MAX_CHARACTERS = 500
MAX_DEPTH = 20  # of brackets
LIMIT_S = 2.0  # of processor time, so that a busy machine changes no verdict

_WORD = re.compile(r"\(?([A-Za-z])\)?|([A-Za-z]{3,}(?:[ '-]+[A-Za-z]+)*)")
_TEXT = re.compile(r"\\(?:text|textbf|textit|mathrm|mbox)\s*\{([^{}]*)\}")
_DOLLARS = re.compile(r"\$\$?(.*?)\$\$?|\\\((.*)\\\)|\\\[(.*)\\\]", re.DOTALL)
_NAMED = re.compile(r"\s*[A-Za-z](?:_\w|_\{\w+\})?(?:\([a-z]\))?\s*=[^=]*")  # x = 2, f(x) = 2
_SUBSCRIPT = re.compile(r"_\s*\{?(\w+)")
_SEPARATOR = re.compile(r"\\cup\b|\\pm\b|[,;]|\bor\b|\band\b")
_BETWEEN = re.compile(r"\\equiv\b|≡|\\b?mod\b|\\(?:text|textbf|textit|mathrm|mbox)\s*\{[^{}]*\w[^{}]*\}\s*[^\s^]")
_THOUSANDS = re.compile(r"(?<=\d)(?:,|\{,\})(?=\d{3}(?!\d))")
_UNDONE = tuple(
    re.compile(pattern)
    for pattern in (
        r"\\i*(?:int|oint)(?![A-Za-z])|[∫∮]",
        r"\\(?:sum|prod)(?![A-Za-z])|[∑∏]",
        r"\\lim(?![A-Za-z])",
        r"\\[dt]?frac\s*\{\s*(?:d|\\partial|\\mathrm\s*\{d\})(?![A-Za-z])[^{}]*\}\s*\{\s*(?:d|\\partial|\\mathrm\s*\{d\})",
        r"\\(?:sin|cos|tan|cot|sec|csc)(?![A-Za-z])",
        r"\\(?:arc|a)(?:sin|cos|tan|cot|sec|csc)(?![A-Za-z])",
        r"\\(?:log|ln|lg)(?![A-Za-z])",
        r"\\[dt]?binom(?![A-Za-z])|\\choose(?![A-Za-z])|!",
        r"\\(?:det|gcd|lcm|max|min)(?![A-Za-z])",
    )
)


def equivalent(answer: str | None, gold: str) -> bool:
    """True where the answer equals the gold answer. Never hangs, in any thread; raises nothing on account of a text.

    Raises:
        ToolFailureError: the process that compares cannot be run.
    """
    if answer is None:
        return False
    given, wanted = _core(answer), _core(gold)
    if given is None or wanted is None:
        return False
    if given == wanted:
        return True
    number = read_number(wanted)
    if number is not None:
        return read_number(given) == number
    word = _word(wanted)
    if word is not None:
        return _word(given) == word
    return _bare(given) == _bare(wanted) or (_fits(given, wanted) and _verified(wanted, given))


def _core(text: str) -> str | None:
    r"""The answer itself, without ``\boxed``, dollar signs and a full stop; None where there is none, or too many."""
    if len(text) > MAX_CHARACTERS:
        return None
    boxes = text.count("\\boxed")
    if boxes > 1:
        return None
    core = (last_boxed(text) or "") if boxes else text
    core = core.strip().removesuffix(".").strip()
    if found := _DOLLARS.fullmatch(core):
        core = next(group for group in found.groups() if group is not None).strip()
    return core if core and _balanced(core) else None


def _balanced(text: str) -> bool:
    """Whether brackets close and nest no deeper than answers do; a half-open interval mixes their kinds."""
    depth = 0
    for character in text.replace("\\{", "").replace("\\}", ""):
        depth += (character in "([{") - (character in ")]}")
        if not 0 <= depth <= MAX_DEPTH:
            return False
    return depth == 0


def _word(text: str) -> str | None:
    """The text as a word in lower case, or None where it is a formula. A lone letter may stand in brackets."""
    found = _WORD.fullmatch(_TEXT.sub(r"\1", text).strip())
    return None if found is None else (found[1] or found[2]).strip().lower()


def _bare(text: str) -> str:
    """The text without commands for text, and without spaces."""
    return "".join(_TEXT.sub(r"\1", text).split())


def _fits(given: str, wanted: str) -> bool:
    """Whether the answer has a shape that math-verify compares as a whole.

    It takes the last one of a chain of equations or congruences, the first one of two formulas with words in between,
    and a number without its base.
    """
    if _parts(given) > _parts(wanted) or (_BETWEEN.search(given) and not _BETWEEN.search(wanted)):
        return False
    if any(operation.search(given) and not operation.search(wanted) for operation in _UNDONE):
        return False
    if "=" in given and "=" not in wanted and not _NAMED.fullmatch(given):
        return False
    subscripts = sorted(_SUBSCRIPT.findall(given))
    return not subscripts or subscripts == sorted(_SUBSCRIPT.findall(wanted))


def _parts(text: str) -> int:
    return len(_SEPARATOR.findall(_THOUSANDS.sub("", text)))


@lru_cache(maxsize=4096)
def _verified(gold: str, answer: str) -> bool:
    return _comparer.compare(gold, answer)


class _Comparer:
    """The comparing process: started at the first use, one per process, used by one thread at a time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None

    def compare(self, gold: str, answer: str) -> bool:
        with self._lock:
            for _ in range(2):  # the process may have been killed since; it is started anew once
                verdict = self._ask(json.dumps([gold, answer, LIMIT_S]))
                if verdict:
                    return verdict == "equal"
        raise ToolFailureError(
            "the process that compares answers with math-verify ended at once; try "
            f"{sys.executable} -c 'import math_verify', and pip install math-verify if that fails"
        )

    def close(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.communicate()

    def forget(self) -> None:
        """In a forked copy of this process: the comparing process is the parent's, and so is whoever held the lock."""
        self._lock = threading.Lock()
        process, self._process = self._process, None
        if process is not None and process.stdin is not None and process.stdout is not None:
            process.returncode = 0  # not ours to wait for
            process.stdin.close()
            process.stdout.close()

    def _ask(self, request: str) -> str:
        """The verdict; "" where the process has ended."""
        try:
            process = self._running()
            assert process.stdin is not None and process.stdout is not None  # both are pipes
            process.stdin.write(request.encode() + b"\n")
            verdict = process.stdout.readline().decode().strip()
        except OSError:
            verdict = ""
        if not verdict:
            self.close()
        return verdict

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            script = str(Path(__file__).with_name("math_worker.py"))
            self._process = subprocess.Popen(
                [sys.executable, "-P", script],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                bufsize=0,  # a forked copy must hold no half of a request
            )
        return self._process


_comparer = _Comparer()
atexit.register(_comparer.close)
os.register_at_fork(after_in_child=_comparer.forget)
