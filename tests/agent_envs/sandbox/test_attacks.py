"""Hostile code in the sandbox: nothing gets out, nothing gets hurt, nothing stays, nobody else is held up."""

from __future__ import annotations

import os
import signal
import socket
import sysconfig
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import FrameType

import pytest

from agent_envs.sandbox import Execution, Limits
from agent_envs.sandbox.process import SandboxProcess
from agent_envs.sandbox.seccomp import DENIED_CALLS, build_filter, this_machine
from tests.agent_envs.sandbox.attacks import ATTACKS, ENDS, PRELUDE, Attack
from tests.agent_envs.sandbox.isolated import needs_isolation

pytestmark = needs_isolation

SECRET = "the-gold-answer-is-42"
LIMITS = Limits(timeout_s=0.5, memory_mb=128, processes=6, file_mb=8, output_chars=2000)
AMPLE_S = 10.0  # for attacks that fail long before, also on a busy machine
MARGIN_S = 4.0  # of a busy machine
SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1)


@dataclass
class Outside:
    """What there is to attack, and what reached it."""

    canary: Path
    fillings: dict[str, object]
    received: list[str] = field(default_factory=list)

    def code(self, attack: Attack, socket_fd: int) -> str:
        return PRELUDE + attack.code.format(**self.fillings, socket=socket_fd)


@pytest.fixture(scope="module")
def outside(tmp_path_factory: pytest.TempPathFactory, project_root: Path) -> Iterator[Outside]:
    canary = tmp_path_factory.mktemp("attacked") / "canary.txt"
    canary.write_text(SECRET)
    tcp, unix = socket.create_server(("127.0.0.1", 0)), socket.socket(socket.AF_UNIX)
    udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    port = tcp.getsockname()[1]
    udp.bind(("127.0.0.1", port))
    unix.bind(f"\0sandbox-test-{os.getpid()}")
    unix.listen()
    machine = this_machine()
    assert machine is not None
    made = Outside(
        canary,
        {
            "canary": str(canary),
            "pid": os.getpid(),
            "port": port,
            "abstract": f"sandbox-test-{os.getpid()}",
            "project": str(project_root),
            "packages": sysconfig.get_path("purelib"),
            "keyctl": DENIED_CALLS["keyctl"][machine.column],
            "clone": machine.clone,
            "io_setup": DENIED_CALLS["io_setup"][machine.column],
        },
    )

    def note(number: int, frame: FrameType | None) -> None:
        made.received.append(f"signal {number}")

    before = {number: signal.signal(number, note) for number in SIGNALS}
    os.environ["SANDBOX_TEST_SECRET"] = SECRET
    for server in (tcp, unix, udp):
        server.setblocking(False)
    yield made
    del os.environ["SANDBOX_TEST_SECRET"]
    for number, handler in before.items():
        signal.signal(number, handler)
    for server, receive in ((tcp, tcp.accept), (unix, unix.accept), (udp, lambda: udp.recv(1))):
        with pytest.raises(BlockingIOError):  # nothing ever came
            receive()
        server.close()


def mark_of(process: SandboxProcess) -> str:
    """What finds a sandbox's processes: its PID namespace, or for those who may not see that, its first process.

    The first process ends after all others, as it waits for the namespace to be empty.
    """
    try:
        return os.readlink(f"/proc/{process.pid}/ns/pid_for_children")
    except PermissionError:  # only root can look into a process that guards itself
        return str(process.pid)


def alive_in(mark: str) -> list[str]:
    """The processes with that mark that still run; one that goes while we look is none."""
    if mark.isdigit():
        return [mark] if Path(f"/proc/{mark}").exists() else []
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                if os.readlink(f"/proc/{entry}/ns/pid") == mark:
                    found.append(entry)
            except OSError:
                continue
    return found


def limits_for(attack: Attack) -> Limits:
    return LIMITS if "timeout" in attack.statuses else replace(LIMITS, timeout_s=AMPLE_S)


def launch(outside: Outside, attack: Attack) -> tuple[Execution, str, float]:
    """Runs an attack to its end; gives how it ended, its mark, and the seconds from sending it to its end."""
    process = SandboxProcess(limits_for(attack), (), namespaces=True)
    try:
        mark = mark_of(process)
        found = process.run(
            "import os\n"
            "def is_open(fd):\n"
            "    try: os.fstat(fd)\n"
            "    except OSError: return False\n"
            "    return True\n"
            "next(fd for fd in range(3, 999) if is_open(fd))"
        )
        start = time.monotonic()
        execution = process.run(outside.code(attack, int(found.value or -1)))
    finally:
        process.kill()
    return execution, mark, time.monotonic() - start


@pytest.mark.parametrize("name", ATTACKS)
def test_attack_fails(outside: Outside, name: str) -> None:
    attack = ATTACKS[name]
    library = Path(os.__file__).stat()
    execution, mark, seconds = launch(outside, attack)
    texts = (execution.stdout, execution.stderr, execution.value or "", execution.error)
    assert execution.status in attack.statuses, execution
    assert seconds < limits_for(attack).timeout_s + MARGIN_S
    assert all(len(text) <= LIMITS.output_chars + 100 for text in texts)
    assert "BREACH" not in execution.stdout
    assert not any(SECRET in text for text in texts)
    assert outside.canary.read_text() == SECRET
    assert (Path(os.__file__).stat().st_size, Path(os.__file__).stat().st_mtime) == (library.st_size, library.st_mtime)
    assert outside.received == []
    assert alive_in(mark) == []


def test_there_are_attacks_enough() -> None:
    assert len(ATTACKS) >= 30


INNER_WALLS = [
    "network: a server on this host",
    "network: an abstract Unix socket",
    "network: a datagram",
    "escaping: mounting proc",
    "escaping: remounting the library",
    "escaping: chroot",
    "reading: the parent's memory by ptrace",
]


@pytest.mark.parametrize("name", INNER_WALLS)
def test_the_namespaces_hold_without_the_filter(outside: Outside, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agent_envs.sandbox.process.build_filter", lambda machine: build_filter(machine, frozenset()))
    execution, mark, _ = launch(outside, ATTACKS[name])
    assert execution.status in ENDS
    assert "BREACH" not in execution.stdout
    assert alive_in(mark) == []


HEAVY = [
    "exhausting: a fork bomb",
    "exhausting: forks that all spin",
    "exhausting: memory by children",
    "exhausting: endless output of a child",
    "outstaying: C code: a regular expression",
]


@pytest.mark.parametrize("name", HEAVY)
def test_another_sandbox_keeps_its_deadline_meanwhile(outside: Outside, name: str) -> None:
    other = SandboxProcess(Limits(timeout_s=5.0), (), namespaces=True)
    attacker = threading.Thread(target=launch, args=(outside, ATTACKS[name]))
    attacker.start()
    try:
        runs = []
        while attacker.is_alive() or not runs:
            runs.append(other.run("print(sum(range(10**5)))"))
            time.sleep(0.1)
    finally:
        attacker.join()
        other.kill()
    assert {(run.status, run.stdout) for run in runs} == {("ok", "4999950000\n")}


def test_no_zombie_and_no_descriptor_is_left(outside: Outside) -> None:
    launch(outside, ATTACKS["outstaying: a daemon"])  # whatever is loaded once is loaded now
    before = len(os.listdir("/proc/self/fd"))
    for name in ("outstaying: a daemon", "outstaying: a loop", "disturbing: a crash"):
        launch(outside, ATTACKS[name])
    assert len(os.listdir("/proc/self/fd")) == before
    children = Path(f"/proc/self/task/{threading.get_native_id()}/children").read_text().split()
    states = [Path(f"/proc/{child}/stat").read_text().rsplit(")", 1)[1].split()[0] for child in children]
    assert "Z" not in states


def wait_until_gone(mark: str) -> None:
    deadline = time.monotonic() + MARGIN_S
    while alive_in(mark) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert alive_in(mark) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can see the processes that a killed supervisor leaves")
def test_everything_ends_when_the_supervisor_is_killed() -> None:
    process = SandboxProcess(LIMITS, (), namespaces=True)
    mark = mark_of(process)
    assert alive_in(mark)
    os.kill(process.pid, signal.SIGKILL)
    wait_until_gone(mark)
    assert process.run("1").status == "killed"


def test_everything_ends_when_the_parent_is_killed() -> None:
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            process = SandboxProcess(LIMITS, (), namespaces=True)
            os.write(writer, mark_of(process).encode())
            os.kill(os.getpid(), signal.SIGKILL)
        finally:
            os._exit(1)  # never on into the tests that are the parent's
    os.close(writer)
    mark = os.read(reader, 100).decode()
    os.waitpid(child, 0)
    os.close(reader)
    assert mark
    wait_until_gone(mark)
