"""How well sandboxed code is to be kept apart, and whether this machine can do it."""

from __future__ import annotations

import functools
import sys
import warnings

from agent_envs.errors import ConfigError
from agent_envs.options import require_choice
from agent_envs.sandbox.limits import Limits
from agent_envs.sandbox.process import SandboxError, SandboxProcess
from agent_envs.sandbox.seccomp import this_machine

LEVELS = ("require", "best-effort")
ADVICE = (
    "Allow user namespaces (in a container: --security-opt seccomp=unconfined --security-opt apparmor=unconfined; on "
    "Ubuntu: sysctl kernel.apparmor_restrict_unprivileged_userns=0; on old Debian: sysctl "
    'kernel.unprivileged_userns_clone=1), or accept isolation="best-effort", which sets limits but lets the code read '
    "files and signal processes as this user"
)


def use_namespaces(isolation: str) -> bool:
    """Whether a sandbox of that level gets namespaces.

    Raises:
        ConfigError: the level is unknown, or "require" and this machine can't; the message says what is missing.
    """
    require_choice("isolation", isolation, LEVELS)
    missing = missing_isolation()
    if missing is None:
        return True
    if isolation == "require":
        raise ConfigError(f"Python code can't be isolated on this machine: {missing}. {ADVICE}")
    _warn_once(missing)
    return False


@functools.cache
def missing_isolation() -> str | None:
    """What this machine lacks, found out once by starting a sandbox; None where it has everything."""
    if sys.platform != "linux":
        return f"namespaces are a feature of Linux, and this is {sys.platform}"
    if this_machine() is None:
        return "there is no system call filter for its processor (only for x86_64 and aarch64)"
    try:
        SandboxProcess(Limits(), (), namespaces=True).kill()
    except SandboxError as error:
        return str(error)
    return None


@functools.cache
def _warn_once(missing: str) -> None:
    message = f"Python code of the policy runs with limits but without isolation: {missing}"
    warnings.warn(message, RuntimeWarning, stacklevel=3)
