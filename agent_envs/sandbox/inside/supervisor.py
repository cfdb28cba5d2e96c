"""The sandbox's first process: builds the walls, starts what runs within them, and takes it down.

It ends everything when the other half closes the socket, for whatever reason: closed in order, crashed or killed.
"""

from __future__ import annotations

import marshal
import os
import resource
import select
import signal
import socket
import sys
from typing import Any

from . import channel, worker

START_FAILED = 97
SIGNALLED = 128  # plus the signal's number


def main() -> None:
    """Reads the settings from the socket whose number is the first argument, and runs until the end."""
    link = socket.socket(fileno=int(sys.argv[1]))
    header = _receive(link, channel.HEADER)
    config = marshal.loads(_receive(link, channel.body_length(header)))
    del sys.path[0]  # the folder of this package
    try:
        _confine(config)
        main_process = os.fork()
    except OSError as error:
        link.sendall(channel.pack(["failed", str(error)]))
        os._exit(START_FAILED)
    if main_process == 0:
        if config["namespaces"]:
            _be_init(link, config)
        else:
            worker.serve(link, config)
    os._exit(_watch(link, main_process, config))


def _receive(link: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        more = link.recv(count - len(data))
        if not more:
            os._exit(0)
        data += more
    return data


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


def _be_init(link: socket.socket, config: dict[str, Any]) -> None:
    """Process 1 of the namespace: when it ends, the kernel kills all others. Ends with the main process."""
    from . import kernel

    kernel.prctl(kernel.PR_SET_PDEATHSIG, signal.SIGKILL)
    os.setsid()  # else a signal to the code's process group would reach the supervisor, outside
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # process 1 is deaf to signals without a handler
    main_process = os.fork()
    if main_process == 0:
        worker.serve(link, config)
    link.close()
    while True:
        ended, status = os.wait()
        if ended == main_process:
            os._exit(_exit_code(status))


def _watch(link: socket.socket, main_process: int, config: dict[str, Any]) -> int:
    """Waits for the end of the main process or of the other half, and leaves nothing alive; gives the exit code."""
    wake, alarm = os.pipe()
    os.set_blocking(alarm, False)
    signal.set_wakeup_fd(alarm, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    poll = select.poll()
    poll.register(link, 0)  # only its closing
    poll.register(wake, select.POLLIN)
    code: int | None = None
    while code is None:
        ended, status = os.waitpid(main_process, os.WNOHANG)
        if ended:
            code = _exit_code(status)
        elif any(fd == link.fileno() for fd, _ in poll.poll()):
            os.kill(main_process, signal.SIGKILL)
            code = _exit_code(os.waitpid(main_process, 0)[1])
        else:
            os.read(wake, 4096)
    if not config["namespaces"]:
        _kill_descendants()
    return code


def _kill_descendants() -> None:
    """Without a namespace: kills what the main process left behind, which has become ours, until nothing is left."""
    try:
        while True:
            with open(f"/proc/self/task/{os.getpid()}/children") as file:
                children = [int(word) for word in file.read().split()]
            for child in children:
                os.kill(child, signal.SIGKILL)
            os.wait()
    except (OSError, ValueError):
        return  # no child is left, or there is no /proc


def _exit_code(status: int) -> int:
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else SIGNALLED - code
