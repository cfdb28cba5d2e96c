"""Moves a process into namespaces of its own: users, mounts, processes, network, System V IPC, host name.

As root the namespaces are made with root's rights and the process then becomes a user that exists nowhere else, as
otherwise the limit of processes would not hold. Anyone else, and root without the right to make namespaces, makes a
user namespace first, which gives those rights within it.
"""

from __future__ import annotations

import os

from . import kernel

TYPE_CHECKING = False  # as typing's, whose import would cost each run some milliseconds
if TYPE_CHECKING:
    from typing import Any

CLONE_NEWNS, CLONE_NEWUTS, CLONE_NEWIPC = 0x00020000, 0x04000000, 0x08000000
CLONE_NEWUSER, CLONE_NEWPID, CLONE_NEWNET = 0x10000000, 0x20000000, 0x40000000
NAMESPACES = CLONE_NEWNS | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWPID | CLONE_NEWNET

NOBODY = 65534
INSIDE_ID = 1000  # any id but 0, so that no program started inside gets capabilities
FIRST_PRIVATE_ID = 1 << 30
NEW_ROOT = "/tmp"
WORK = "/tmp"
DEVICES = ("null", "zero", "full", "random", "urandom")


def enter(config: dict[str, Any]) -> None:
    """Leaves this process without anything of the host but what ``config`` lists, and without rights.

    Raises:
        OSError: the system does not allow a step; the message names it.
    """
    owner = _unshare()
    _build_root(config, owner)
    os.chdir(NEW_ROOT)
    kernel.pivot_root_here(config["pivot_root"])
    flags = kernel.MS_REMOUNT | kernel.MS_BIND | kernel.MS_RDONLY | kernel.MS_NOSUID | kernel.MS_NODEV
    kernel.mount("none", "/", "", flags)
    if os.geteuid() == 0:
        _become(owner)
    kernel.drop_capabilities()
    os.chdir(WORK)


def _unshare() -> int:
    """Makes the namespaces; gives the user id that the sandbox will have."""
    private_id = FIRST_PRIVATE_ID | os.getpid()
    if os.geteuid() == 0:
        try:
            kernel.unshare(NAMESPACES)
        except PermissionError:
            _become(private_id)
            kernel.prctl(kernel.PR_SET_DUMPABLE, 1)  # else /proc/self would not be ours
        else:
            return private_id
    user, group = os.geteuid(), os.getegid()
    kernel.unshare(CLONE_NEWUSER | NAMESPACES)
    _write("/proc/self/setgroups", "deny")
    _write("/proc/self/uid_map", f"{INSIDE_ID} {user} 1")
    _write("/proc/self/gid_map", f"{INSIDE_ID} {group} 1")
    return INSIDE_ID


def _become(user: int) -> None:
    """Takes that id as user and group; where the system does not map it, nobody's; else stays as it is."""
    os.setgroups([])
    for candidate in (user, NOBODY):
        try:
            os.setresgid(candidate, candidate, candidate)
            os.setresuid(candidate, candidate, candidate)
        except OSError:
            continue
        return


def _build_root(config: dict[str, Any], owner: int) -> None:
    """A new root in memory with the folders of the interpreter, read-only, and an empty folder for the code."""
    private = kernel.MS_NOSUID | kernel.MS_NODEV
    kernel.mount("none", "/", "", kernel.MS_REC | kernel.MS_PRIVATE)
    devices = [(f"/dev/{name}", f"/dev/{name}") for name in DEVICES]
    # Opened before anything is mounted: a source may lie below the place of the new root.
    opened = [(os.open(source, os.O_PATH | os.O_CLOEXEC), target) for source, target in config["binds"]]
    opened_devices = [(os.open(source, os.O_PATH | os.O_CLOEXEC), target) for source, target in devices]
    fds = [fd for fd, _ in opened + opened_devices]
    modes = {fd: os.fstat(fd).st_mode for fd in fds}
    held_flags = {fd: os.fstatvfs(fd).f_flag for fd in fds}
    kernel.mount("tmpfs", NEW_ROOT, "tmpfs", private, "size=1m,mode=755")
    for fd, target in opened + opened_devices:
        _make_place(NEW_ROOT + target, modes[fd])
        kernel.mount(f"/proc/self/fd/{fd}", NEW_ROOT + target, "", kernel.MS_BIND | kernel.MS_REC)
    for fd, target in opened:
        _make_read_only(NEW_ROOT + target, held_flags[fd])
    for target in config["masks"]:
        kernel.mount("tmpfs", NEW_ROOT + target, "tmpfs", private | kernel.MS_RDONLY, "size=4k,mode=755")
    for target, path in config["links"]:
        os.makedirs(os.path.dirname(NEW_ROOT + path), exist_ok=True)
        os.symlink(target, NEW_ROOT + path)
    os.makedirs(NEW_ROOT + WORK, exist_ok=True)
    size = f"size={config['file_mb']}m,nr_inodes=4096,mode=700,uid={owner},gid={owner}"
    kernel.mount("tmpfs", NEW_ROOT + WORK, "tmpfs", private, size)
    os.symlink(WORK, NEW_ROOT + "/dev/shm")
    for fd in fds:
        os.close(fd)


def _make_place(path: str, mode: int) -> None:
    if mode & 0o170000 == 0o040000:
        os.makedirs(path, exist_ok=True)
    else:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o644))


def _make_read_only(path: str, held: int) -> None:
    """A mount's own flags must be repeated: a user namespace may not take any away."""
    keep = held & (os.ST_NODEV | os.ST_NOEXEC | os.ST_NOATIME | os.ST_NODIRATIME | os.ST_RELATIME)
    flags = _as_mount_flags(keep) | kernel.MS_REMOUNT | kernel.MS_BIND | kernel.MS_RDONLY | kernel.MS_NOSUID
    kernel.mount("none", path, "", flags)


def _as_mount_flags(held: int) -> int:
    pairs = (
        (os.ST_NODEV, kernel.MS_NODEV),
        (os.ST_NOEXEC, kernel.MS_NOEXEC),
        (os.ST_NOATIME, 1024),
        (os.ST_NODIRATIME, 2048),
        (os.ST_RELATIME, 1 << 21),
    )
    return sum(flag for bit, flag in pairs if held & bit)


def _write(path: str, text: str) -> None:
    try:
        with open(path, "w") as file:
            file.write(text)
    except FileNotFoundError:
        if not path.endswith("setgroups"):  # kernels before 3.19 have none, and need none
            raise
