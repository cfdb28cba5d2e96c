"""Sessions: what stays, what is parted by a fork, what a killed cell takes with it."""

from __future__ import annotations

import copy
import gc
import os
import pickle
import threading
import time
from collections.abc import Iterator

import pytest

from agent_envs.sandbox import Limits, PythonSession
from tests.agent_envs.sandbox.isolated import needs_isolation

pytestmark = needs_isolation
LIMITS = Limits(timeout_s=2.0)


@pytest.fixture
def session() -> Iterator[PythonSession]:
    made = PythonSession(LIMITS)
    yield made
    made.close()


def sandboxes() -> list[str]:
    """The children of this process that run the sandbox's program."""
    found = []
    for task in os.listdir("/proc/self/task"):
        with open(f"/proc/self/task/{task}/children") as file:
            children = file.read().split()
        for child in children:
            with open(f"/proc/{child}/cmdline") as file:
                found += [child] if "inside.supervisor" in file.read() else []
    return found


def test_variables_imports_and_files_stay(session: PythonSession) -> None:
    session.run("import math\nx = 3\nopen('note', 'w').write('kept')")
    assert session.run("math.sqrt(x * 3)").value == "3.0"
    assert session.run("open('note').read()").value == "'kept'"
    assert session.run("1 / 0").error.splitlines()[1] == '  File "<cell 4>", line 1, in <module>'
    assert session.run("x").value == "3"


def test_output_belongs_to_its_cell(session: PythonSession) -> None:
    assert session.run("print('one')").stdout == "one\n"
    assert session.run("import sys\nprint('two', file=sys.stderr)").stdout == ""
    assert session.run("print('three')").stderr == ""


def test_an_exit_or_a_memory_error_ends_the_cell_only(session: PythonSession) -> None:
    session.run("x = 1")
    assert session.run("exit()").status == "ok"
    assert session.run("y = [0] * 10**10").status == "memory"
    after = session.run("x")
    assert (after.value, after.restarted) == ("1", False)


def test_a_forked_child_does_not_answer_in_place_of_the_cell(session: PythonSession) -> None:
    assert session.run("import os\npid = os.fork()\nif pid: os.waitpid(pid, 0)\npid > 0").value == "True"
    assert session.run("'next'").value == "'next'"


def test_an_answer_that_the_code_sent_itself_does_not_shift_the_later_ones(session: PythonSession) -> None:
    forged = session.run(
        "import os, socket, stat, struct\n"
        "def is_socket(fd):\n"
        "    try: return stat.S_ISSOCK(os.fstat(fd).st_mode)\n"
        "    except OSError: return False\n"
        "def framed(data): return struct.pack('!I', len(data)) + data\n"
        "link = next(fd for fd in range(3, 99) if is_socket(fd))\n"
        "os.write(link, framed(framed(b'ok') + framed(b'forged') + framed(b'value') + framed(b'')))\n"
        "'its real value'"
    )
    assert forged.value == "forged"  # nobody else can be harmed by it
    time.sleep(0.5)
    execution = session.run("1 + 1")
    assert (execution.status, execution.value) == ("killed", None)
    assert "disturbed the sandbox" in execution.error
    assert session.run("2 + 2").value == "4"


def test_no_child_outlives_its_cell(session: PythonSession) -> None:
    session.run("import os, time\nchild = os.fork()\nif child == 0: time.sleep(60)")
    gone = "try: os.waitpid(child, 0); print(os.kill(child, 0))\nexcept ProcessLookupError: print('gone')"
    assert session.run(gone).stdout == "gone\n"


def test_after_a_time_out_the_next_cell_starts_empty_and_says_so(session: PythonSession) -> None:
    session.run("x = 1")
    assert session.run("while True: pass").status == "timeout"
    after = session.run("'x' in globals()")
    assert (after.value, after.restarted) == ("False", True)
    assert session.run("1").restarted is False


def test_a_fork_has_the_state_and_parts_from_it(session: PythonSession) -> None:
    session.run("import random\nx = [random.random()]\nopen('f', 'w').write('base')")
    fork = session.fork()
    try:
        drawn = session.run("x").value
        assert fork.run("x").value == drawn
        fork.run("x.append('fork'); open('f', 'w').write('fork')")
        assert session.run("len(x), open('f').read()").value == "(1, 'base')"
        session.close()
        assert fork.run("len(x), open('f').read()").value == "(2, 'fork')"
    finally:
        fork.close()


def test_a_fork_of_a_lost_session_is_lost_too(session: PythonSession) -> None:
    session.run("while True: pass")
    fork = session.fork()
    assert fork.run("1").restarted is True
    fork.close()


def test_a_fork_that_can_not_repeat_a_cell_says_so(session: PythonSession) -> None:
    # The cell ends in time once only: what it takes depends on the clock, as a replay can't know.
    session.run(f"import time\nx = 1\nif time.time() > {time.time() + 2.0}: time.sleep(60)")
    fork = session.fork()
    time.sleep(2.0)
    after = fork.run("'x' in globals()")
    assert (after.value, after.restarted) == ("False", True)
    fork.close()


@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda session: pickle.loads(pickle.dumps(session))])
def test_copies_carry_the_state(session: PythonSession, duplicate: object) -> None:
    session.run("x = 7")
    twin = duplicate(session)  # type: ignore[operator]
    assert twin.run("x += 1; x").value == "8"
    assert session.run("x").value == "7"
    twin.close()


def test_closing_leaves_nothing_and_may_be_repeated() -> None:
    before = sandboxes()
    session = PythonSession(LIMITS)
    session.close()
    assert sandboxes() == before
    session.run("x = 1")
    assert len(sandboxes()) == len(before) + 1
    session.close()
    session.close()
    assert sandboxes() == before
    assert session.run("'x' in globals()").value == "False"
    session.close()


def test_a_session_that_nobody_holds_is_ended() -> None:
    before = sandboxes()
    session = PythonSession(LIMITS)
    session.run("x = 1")
    del session
    gc.collect()
    assert sandboxes() == before


def test_closing_from_another_thread_ends_a_running_cell() -> None:
    session = PythonSession(Limits(timeout_s=20))
    session.run("1")
    closer = threading.Timer(0.3, session.close)
    closer.start()
    start = time.monotonic()
    assert session.run("while True: pass").status == "killed"
    assert time.monotonic() - start < 10
    closer.join()


def test_a_forked_process_gets_a_sandbox_of_its_own(session: PythonSession) -> None:
    session.run("x = 5")
    child = os.fork()
    if child == 0:  # closes, too: that must not end the parent's
        correct = session.run("x += 1; x").value == "6"
        session.close()
        os._exit(0 if correct else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert session.run("x").value == "5"


def test_a_session_starts_lazily() -> None:
    before = sandboxes()
    forks = [PythonSession(LIMITS).fork() for _ in range(5)]
    assert sandboxes() == before
    for fork in forks:
        fork.close()
