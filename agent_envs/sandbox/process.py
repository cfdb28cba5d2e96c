"""One sandbox as seen from outside: starts it, sends it code, reads what comes back, and ends it whole."""

from __future__ import annotations

import contextlib
import marshal
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
from pathlib import Path
from typing import Any, cast

from agent_envs.errors import ToolFailureError
from agent_envs.sandbox.execution import Execution, Status, cut
from agent_envs.sandbox.inside import channel
from agent_envs.sandbox.limits import MIB, Limits
from agent_envs.sandbox.seccomp import build_filter, this_machine
from agent_envs.sandbox.view import PACKAGES_FOLDER, interpreter, make_view
from agent_envs.sandbox.wire import OUTPUT_BYTES_THAT_KILL, Silence, Wire

START_S = 15.0  # the machine may be busy; nothing of the code runs in this time
STOP_S = 3.0
OPEN_FILES = 64
OWN_PROCESSES = 2  # of the sandbox itself, beside the main process of the code
CUT_MARK_CHARS = 100  # at most, of the words that say where a text was cut
SIGNALLED = 128

# The package is imported by its path, from its byte code, and never drags in agent_envs. The flags -s, -S and -P keep
# site-packages and the working folder out.
BOOT = "import sys; sys.path.insert(0, {folder!r}); from inside.supervisor import main; main()"
FLAGS = ("-s", "-S", "-P")
ENVIRONMENT = {
    "LC_ALL": "C.UTF-8",
    "PATH": "",
    "PYTHONHASHSEED": "0",
    "PYTHONUTF8": "1",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
}


class SandboxError(ToolFailureError):
    """The sandbox itself could not be started."""


class SandboxProcess:
    """A running sandbox, from its start to ``kill``. ``run`` is for one thread at a time; ``kill`` for any."""

    def __init__(self, limits: Limits, packages: tuple[str, ...], namespaces: bool) -> None:
        """Starts it and waits until it's ready for code.

        Raises:
            SandboxError: it did not start; the message says which step failed.
            ConfigError: a package can't be shown.
        """
        self._limits = limits
        self._guard = threading.Lock()
        self._talking = threading.Lock()
        self._owner = os.getpid()
        self._alive = True
        self._folder = None if namespaces else tempfile.mkdtemp(prefix="sandbox-")
        try:
            config = marshal.dumps(_configure(limits, packages, self._folder))
            self._process, self._wire = _launch(self._folder or "/tmp", limits.output_chars)
        except BaseException:
            self._remove_folder()
            raise
        try:
            answer = self._wire.exchange(channel.frame(config), START_S)
            if answer != ["ready"]:
                raise SandboxError(f"the sandbox for Python code did not start: {self._why_not(answer)}")
        except BaseException:
            self.kill()
            raise

    @property
    def pid(self) -> int:
        """Its first process, outside of the namespaces' own numbering; its group has the same number."""
        return self._process.pid

    @property
    def alive(self) -> bool:
        """False once it has been ended, and in a process forked from the one that started it."""
        return self._alive and os.getpid() == self._owner

    def run(self, code: str) -> Execution:
        """Runs a cell. Whatever does not end in order ends the sandbox too."""
        start = time.monotonic()
        answer: list[str] | Silence = Silence.ENDED
        with self._talking:
            if self._alive:
                answer = self._wire.exchange(channel.pack([code]), self._limits.timeout_s)
        seconds = time.monotonic() - start
        stdout, stderr = self._wire.texts()
        if isinstance(answer, list) and len(answer) == 4 and answer[0] in ("ok", "error", "memory"):
            status, value, has_value, error = (_cut_again(text, self._limits.output_chars) for text in answer)
            return Execution(cast("Status", status), stdout, stderr, value if has_value else None, error, seconds)
        returned = self.kill()
        ended, why = self._explain(Silence.GARBAGE if isinstance(answer, list) else answer, returned)
        return Execution(ended, stdout, stderr, None, why, seconds)

    def kill(self) -> int:
        """Ends every process of the sandbox and returns when they are gone; gives the exit code. May be repeated."""
        with self._guard:
            if self.alive:
                self._alive = False
                self._end()
            return self._process.returncode

    def _end(self) -> None:
        self._wire.hang_up()
        if not self._wire.is_deserted(STOP_S):  # its supervisor was stopped, or the machine is overloaded
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGKILL)
        self._process.wait()
        with self._talking:  # its end is what a run in another thread sees now
            self._wire.close()
        self._remove_folder()

    def _remove_folder(self) -> None:
        if self._folder is not None:
            remove_tree(self._folder)

    def _why_not(self, answer: list[str] | Silence) -> str:
        if isinstance(answer, list):
            return answer[-1] if answer else Silence.GARBAGE
        return self._wire.texts()[1] or answer

    def _explain(self, silence: Silence, returned: int) -> tuple[Status, str]:
        """How a sandbox ended that ran code, and that in words."""
        limits = self._limits
        if silence is Silence.TIMEOUT:
            return "timeout", f"the code ran longer than {limits.timeout_s:g} s and was stopped"
        if silence is Silence.OUTPUT:
            return "killed", f"the code wrote more than {OUTPUT_BYTES_THAT_KILL // MIB} MiB of output and was stopped"
        if silence is Silence.GARBAGE:
            return "killed", "the code disturbed the sandbox that ran it and was stopped"
        if returned == SIGNALLED + signal.SIGXCPU:
            return "timeout", f"the code used more than {limits.cpu_seconds} s of processor time and was stopped"
        if returned > SIGNALLED:
            name = signal.Signals(returned - SIGNALLED).name
            return "killed", f"the Python process was ended by {name} (out of memory, a crash, or its own doing)"
        return "killed", f"the code ended its own Python process (exit code {returned})"


def remove_tree(folder: str) -> None:
    """Removes a folder, also where it or what is in it was made unreadable. Links are not followed."""
    _open_to_owner(folder)
    for place, names, _ in os.walk(folder):
        for name in names:
            _open_to_owner(os.path.join(place, name))  # before the walk goes into it
    shutil.rmtree(folder, ignore_errors=True)


def _open_to_owner(folder: str) -> None:
    if not os.path.islink(folder):
        with contextlib.suppress(OSError):
            os.chmod(folder, 0o700)


def _cut_again(text: str, chars: int) -> str:
    """The text as the worker has cut it, or cut now: the code can send a record in the worker's place."""
    return text if len(text) <= chars + CUT_MARK_CHARS else cut(text, chars)


def _configure(limits: Limits, packages: tuple[str, ...], folder: str | None) -> dict[str, Any]:
    """The settings for the other half; ``folder`` is its temporary folder, None for namespaces."""
    machine = this_machine()
    view = make_view(packages)
    rlimits = {
        "RLIMIT_AS": limits.memory_mb * MIB,
        "RLIMIT_FSIZE": limits.file_mb * MIB,
        "RLIMIT_NOFILE": OPEN_FILES,
        "RLIMIT_MEMLOCK": 0,
        "RLIMIT_MSGQUEUE": 0,
        "RLIMIT_SIGPENDING": 1000,
    }
    if folder is None:  # elsewhere all processes of the user would count
        rlimits["RLIMIT_NPROC"] = limits.processes + OWN_PROCESSES
        package_paths = [PACKAGES_FOLDER]
    else:
        package_paths = sorted({os.path.dirname(source) for source, _ in view.packages})
    return {
        "namespaces": folder is None,
        "folder": folder,
        "filter": build_filter(machine) if machine else b"",
        "pivot_root": machine.pivot_root if machine else 0,
        "binds": list(view.binds + view.packages),
        "masks": list(view.masks),
        "links": list(view.links),
        "file_mb": limits.file_mb,
        "cpu_s": limits.cpu_seconds,
        "output_chars": limits.output_chars,
        "rlimits": rlimits,
        "sys_path": package_paths if packages else [],
    }


def _launch(folder: str, chars: int) -> tuple[subprocess.Popen[bytes], Wire]:
    """Starts the interpreter with one end of a socket, pipes for output, and nothing else of this process."""
    ours, theirs = socket.socketpair()
    boot = BOOT.format(folder=str(Path(__file__).resolve().parent))
    try:
        process = subprocess.Popen(
            [str(interpreter()), *FLAGS, "-c", boot, str(theirs.fileno())],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=ENVIRONMENT | {"HOME": folder, "TMPDIR": folder},
            cwd="/",
            pass_fds=[theirs.fileno()],
            start_new_session=True,
        )
    except OSError as error:
        ours.close()
        raise SandboxError(f"the sandbox for Python code did not start: {error}") from error
    finally:
        theirs.close()
    assert process.stdout is not None and process.stderr is not None  # asked for above
    return process, Wire(ours, (process.stdout, process.stderr), chars)
