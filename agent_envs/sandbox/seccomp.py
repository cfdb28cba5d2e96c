"""A seccomp filter: system calls that sandboxed code has no business with fail with EPERM.

It shuts what namespaces and rlimits leave open: memory that no rlimit counts (memfd, System V shared memory), what the
whole host or all processes of a user share (asynchronous I/O, inotify), sockets (vsock passes through a network
namespace), and the kernel's larger surfaces (new namespaces, mounts, bpf, keys).
"""

from __future__ import annotations

import errno
import platform
import struct
from dataclasses import dataclass

# name: number on x86_64, number on aarch64
DENIED_CALLS: dict[str, tuple[int, int]] = {
    "socket": (41, 198),
    "memfd_create": (319, 279),
    "memfd_secret": (447, 447),
    "shmget": (29, 194),
    "msgget": (68, 186),
    "semget": (64, 190),
    "mq_open": (240, 180),
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "pidfd_getfd": (438, 438),
    "kcmp": (312, 272),
    "unshare": (272, 97),
    "setns": (308, 268),
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "chroot": (161, 51),
    "open_tree": (428, 428),
    "move_mount": (429, 429),
    "fsopen": (430, 430),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fspick": (433, 433),
    "mount_setattr": (442, 442),
    "name_to_handle_at": (303, 264),
    "open_by_handle_at": (304, 265),
    "keyctl": (250, 219),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "fanotify_init": (300, 262),
    "inotify_init": (253, 26),  # aarch64 has only the other one
    "inotify_init1": (294, 26),
    "io_setup": (206, 0),
    "kexec_load": (246, 104),
    "kexec_file_load": (320, 294),
    "init_module": (175, 105),
    "finit_module": (313, 273),
    "delete_module": (176, 106),
    "reboot": (169, 142),
    "swapon": (167, 224),
    "swapoff": (168, 225),
    "acct": (163, 89),
    "quotactl": (179, 60),
    "quotactl_fd": (443, 443),
    "syslog": (103, 116),
    "settimeofday": (164, 170),
    "clock_settime": (227, 112),
}
NEW_NAMESPACE_FLAGS = 0x7E020000  # of clone(2)

_LOAD, _JUMP_EQUAL, _JUMP_ANY_BIT, _JUMP_AT_LEAST, _RETURN = 0x20, 0x15, 0x45, 0x35, 0x06
_NUMBER_AT, _MACHINE_AT, _FIRST_ARGUMENT_AT = 0, 4, 16  # in struct seccomp_data, little-endian
_ALLOW, _ERRNO = 0x7FFF0000, 0x00050000
_X32_BIT = 0x40000000


@dataclass(frozen=True, slots=True)
class Machine:
    """A processor architecture as the kernel numbers things on it.

    Attributes:
        column: of ``DENIED_CALLS``.
        audit: the value that seccomp gives for the architecture.
        clone: the number of clone(2).
        clone3: the number of clone3(2).
        pivot_root: the number of pivot_root(2).
    """

    column: int
    audit: int
    clone: int
    clone3: int
    pivot_root: int


MACHINES = {"x86_64": Machine(0, 0xC000003E, 56, 435, 155), "aarch64": Machine(1, 0xC00000B7, 220, 435, 41)}


def this_machine() -> Machine | None:
    """The machine that this process runs on, or None where the project has no numbers for it."""
    return MACHINES.get(platform.machine())


def build_filter(machine: Machine, denied: frozenset[str] = frozenset(DENIED_CALLS)) -> bytes:
    """The filter as a program of classic BPF.

    clone3 hides its flags from a filter, so it "does not exist" and libraries use clone, whose flags are looked at.
    """
    refuse = _step(_RETURN, _ERRNO | errno.EPERM)
    steps = [
        _step(_LOAD, _MACHINE_AT),
        _step(_JUMP_EQUAL, machine.audit, yes=1),
        refuse,
        _step(_LOAD, _NUMBER_AT),
        _step(_JUMP_AT_LEAST, _X32_BIT, no=1),
        refuse,
        _step(_JUMP_EQUAL, machine.clone3, no=1),
        _step(_RETURN, _ERRNO | errno.ENOSYS),
    ]
    for name in sorted(denied):
        steps += [_step(_JUMP_EQUAL, DENIED_CALLS[name][machine.column], no=1), refuse]
    steps += [
        _step(_JUMP_EQUAL, machine.clone, no=3),
        _step(_LOAD, _FIRST_ARGUMENT_AT),
        _step(_JUMP_ANY_BIT, NEW_NAMESPACE_FLAGS, no=1),
        refuse,
        _step(_RETURN, _ALLOW),
    ]
    return b"".join(steps)


def _step(code: int, value: int, yes: int = 0, no: int = 0) -> bytes:
    """One instruction; ``yes`` and ``no`` are how many instructions a jump skips."""
    return struct.pack("=HBBI", code, yes, no, value)
