"""The system calls that ``os`` does not have, by ctypes. Linux only."""

from __future__ import annotations

import ctypes
import os

PR_SET_PDEATHSIG = 1
PR_SET_DUMPABLE = 4
PR_SET_SECCOMP = 22
PR_CAPBSET_DROP = 24
PR_SET_CHILD_SUBREAPER = 36
PR_SET_NO_NEW_PRIVS = 38
SECCOMP_MODE_FILTER = 2
CAPABILITY_VERSION_3 = 0x20080522
LAST_CAPABILITY = 63

MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC = 1, 2, 4, 8
MS_REMOUNT, MS_BIND, MS_REC, MS_PRIVATE = 32, 4096, 16384, 1 << 18
MNT_DETACH = 2

_libc = ctypes.CDLL(None, use_errno=True)


class _FilterProgram(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_char_p))


def _checked(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def unshare(flags: int) -> None:
    """Moves this process (and, for the PID namespace, its children) into new namespaces."""
    _checked(_libc.unshare(ctypes.c_int(flags)), "unshare")


def mount(source: str, target: str, kind: str, flags: int, data: str = "") -> None:
    """The system call of that name."""
    arguments = (source.encode(), target.encode(), kind.encode(), ctypes.c_ulong(flags), data.encode())
    _checked(_libc.mount(*arguments), f"mount {kind or source} on {target}")


def pivot_root_here(number: int) -> None:
    """Makes the working folder the root and lets go of the old one; ``number`` is that of the system call."""
    _checked(_libc.syscall(ctypes.c_long(number), b".", b"."), "pivot_root")
    _checked(_libc.umount2(b".", ctypes.c_int(MNT_DETACH)), "umount of the old root")
    os.chdir("/")


def prctl(option: int, value: int = 0) -> None:
    """The system call of that name, with one value."""
    zero = ctypes.c_ulong(0)
    _checked(_libc.prctl(ctypes.c_int(option), ctypes.c_ulong(value), zero, zero, zero), f"prctl {option}")


def drop_capabilities() -> None:
    """Gives up every capability, for good: no program started later can get one back."""
    for capability in range(LAST_CAPABILITY + 1):
        try:
            prctl(PR_CAPBSET_DROP, capability)
        except OSError:  # past the last one that this kernel knows, or not ours to drop
            continue
    header = (ctypes.c_uint32 * 2)(CAPABILITY_VERSION_3, 0)
    _checked(_libc.capset(header, (ctypes.c_uint32 * 6)()), "capset")


def install_filter(program: bytes) -> None:
    """Puts a seccomp filter on this process and its children."""
    record = _FilterProgram(len(program) // 8, program)
    zero = ctypes.c_ulong(0)
    result = _libc.prctl(
        ctypes.c_int(PR_SET_SECCOMP), ctypes.c_ulong(SECCOMP_MODE_FILTER), ctypes.byref(record), zero, zero
    )
    _checked(result, "seccomp")
