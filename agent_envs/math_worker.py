"""The process in which math-verify compares answers: run as a script, one comparison per child process.

Reads lines of JSON, ``[gold, answer, limit_s]``, and writes a line for each: ``equal``, ``different`` or ``undecided``.
A comparison runs in a fork that has its time and memory bounded by the kernel, so that no answer, whatever it makes
sympy do, can hang or grow this process; forking also spares the imports. Imports nothing of this package.
"""

import gc
import json
import logging
import os
import resource
import signal
import sys
import warnings

MEMORY_BYTES = 2 << 30
MOST_WAITING = 10  # times the limit, which is of processor time: how long a comparison may take by the clock
FLOAT_PLACES = 12  # decimals that two floats have to share
# Loads the grammar and sympy's parts, and fills its caches, which every fork then has.
WARM_UP = (
    (r"\frac{1}{2}", "x^2+1"),
    (r"\{1, 2, 3\}", "1, 2, 4"),
    (r"\frac{3 + \sqrt{8}}{2}", r"\frac32 + \sqrt{2}"),
    ("(1, 2)", "[1, 2]"),
    ("x > 2", "3 < x"),
)
_EQUAL, _DIFFERENT = 0, 1


def main() -> None:
    """Answers requests until standard input ends."""
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    for gold, answer in WARM_UP:
        _compare(gold, answer)
    gc.freeze()  # a fork that collects garbage would copy every page
    for line in sys.stdin:
        gold, answer, limit_s = json.loads(line)
        print(_compare_in_fork(gold, answer, limit_s), flush=True)  # noqa: T201 - its protocol


def _compare_in_fork(gold: str, answer: str, limit_s: float) -> str:
    child = os.fork()
    if child == 0:
        os._exit(_bounded_compare(gold, answer, limit_s))
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    return {_EQUAL: "equal", _DIFFERENT: "different"}.get(code, "undecided")


def _bounded_compare(gold: str, answer: str, limit_s: float) -> int:
    try:
        # Neither signal has a handler, so the kernel ends the process, even inside C code.
        signal.setitimer(signal.ITIMER_PROF, limit_s)
        signal.setitimer(signal.ITIMER_REAL, MOST_WAITING * limit_s)
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
        return _EQUAL if _compare(gold, answer) else _DIFFERENT
    except BaseException:  # whatever it is, it must not reach the loop above
        return 2


def _compare(gold: str, answer: str) -> bool:
    from math_verify import LatexExtractionConfig, parse, verify

    def read(text: str) -> list[object]:
        boxed = f"\\boxed{{{text}}}"
        found = parse(boxed, config, fallback_mode="no_fallback", extraction_mode="first_match", parsing_timeout=None)
        return list(found)

    config = [LatexExtractionConfig(boxed_match_priority=0)]
    return bool(verify(read(gold), read(answer), float_rounding=FLOAT_PLACES, timeout_seconds=None))


if __name__ == "__main__":
    main()
