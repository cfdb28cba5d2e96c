"""The sandbox's first process: builds the walls, starts what runs within them, and takes it down.

It ends everything when the other half closes the socket, for whatever reason: closed in order, crashed or killed.
"""

from __future__ import annotations

import marshal
import os
import resource
import select
import sys

from . import channel, worker

TYPE_CHECKING = False  # as typing's, whose import would cost each run some milliseconds
if TYPE_CHECKING:
    from typing import Any

START_FAILED = 97
SIGNALLED = 128  # plus the signal's number
SIGKILL = 9
WITHOUT_PIDFD_MS = 50  # how often to look for the end of a process where the system can't tell of it


def main() -> None:
    """Reads the settings from the socket whose number is the first argument, and runs until the end."""
    link = int(sys.argv[1])
    sent = channel.receive(link)
    if sent is None:
        os._exit(0)
    config = marshal.loads(sent)
    del sys.path[0]  # the folder of this package
    try:
        _confine(config)
        main_process = os.fork()
    except OSError as error:
        channel.send(link, ["failed", str(error)])
        os._exit(START_FAILED)
    if main_process == 0:
        if config["namespaces"]:
            _be_init(link, config)
        else:
            worker.serve(link, config)
    os._exit(_watch(link, main_process, config))


def _confine(config: dict[str, Any]) -> None:
    """Everything that holds for all processes of the sandbox."""
    if sys.platform == "linux":
        from . import kernel
    if config["namespaces"]:
        from . import namespaces

        _prefer_in_out_of_memory()
        namespaces.enter(config)
    else:
        os.chdir(config["folder"])
    if sys.platform == "linux":
        kernel.prctl(kernel.PR_SET_NO_NEW_PRIVS, 1)
        kernel.prctl(kernel.PR_SET_CHILD_SUBREAPER, 1)
        if config["filter"]:
            kernel.install_filter(config["filter"])
        kernel.prctl(kernel.PR_SET_DUMPABLE, 0)
    resource.setrlimit(resource.RLIMIT_CORE, (1, 1))  # 0 would still wake a crash handler that reads from a pipe


def _prefer_in_out_of_memory() -> None:
    """When the host runs out of memory, the sandbox goes first."""
    try:
        with open("/proc/self/oom_score_adj", "w") as file:
            file.write("1000")
    except OSError:
        return  # no more than a preference


def _be_init(link: int, config: dict[str, Any]) -> None:
    """Process 1 of the namespace: when it ends, the kernel kills all others. Ends with the main process."""
    from . import kernel

    kernel.prctl(kernel.PR_SET_PDEATHSIG, SIGKILL)
    os.setsid()  # else a signal to the code's process group would reach the supervisor, outside
    main_process = os.fork()
    if main_process == 0:
        worker.serve(link, config)
    os.close(link)
    while True:
        ended, status = os.wait()
        if ended == main_process:
            os._exit(_exit_code(status))


def _watch(link: int, main_process: int, config: dict[str, Any]) -> int:
    """Waits for the end of the main process or of the other half, and leaves nothing alive; gives the exit code."""
    poll = select.poll()
    poll.register(link, 0)  # only its closing
    patience_ms = WITHOUT_PIDFD_MS
    if hasattr(os, "pidfd_open"):
        poll.register(os.pidfd_open(main_process), select.POLLIN)
        patience_ms = -1
    ended, status = 0, 0
    while not ended:
        if any(fd == link for fd, _ in poll.poll(patience_ms)):
            os.kill(main_process, SIGKILL)
            ended, status = os.waitpid(main_process, 0)
        else:
            ended, status = os.waitpid(main_process, os.WNOHANG)
    if not config["namespaces"]:
        _kill_descendants()
    return _exit_code(status)


def _kill_descendants() -> None:
    """Without a namespace: kills what the main process left behind, which has become ours, until nothing is left."""
    try:
        while True:
            with open(f"/proc/self/task/{os.getpid()}/children") as file:
                children = [int(word) for word in file.read().split()]
            for child in children:
                os.kill(child, SIGKILL)
            os.wait()
    except (OSError, ValueError):
        return  # no child is left, or there is no /proc


def _exit_code(status: int) -> int:
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else SIGNALLED - code
