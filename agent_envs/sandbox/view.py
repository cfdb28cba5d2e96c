"""What of the host's files sandboxed code can see: the interpreter and its libraries, read-only, without packages."""

from __future__ import annotations

import functools
import os
import sys
from dataclasses import dataclass
from pathlib import Path

from agent_envs.errors import ConfigError

PACKAGES_FOLDER = "/packages"
SYSTEM_LIBRARIES = ("/usr/lib", "/usr/lib64", "/usr/lib32", "/lib", "/lib64")
SYSTEM_FILES = ("/etc/ld.so.cache", "/usr/share/zoneinfo")
HIDDEN = ("python*/site-packages", "python*/dist-packages")


@dataclass(frozen=True, slots=True)
class View:
    """The files of a sandbox.

    Attributes:
        binds: (path on the host, path in the sandbox) of the interpreter and its libraries.
        packages: the same of the packages that the code may import.
        masks: folders below them that are shown empty.
        links: (what it points to, path in the sandbox).
    """

    binds: tuple[tuple[str, str], ...]
    packages: tuple[tuple[str, str], ...]
    masks: tuple[str, ...]
    links: tuple[tuple[str, str], ...]


def interpreter() -> Path:
    """The interpreter that runs this process, or the one that its virtual environment was made of."""
    return Path(getattr(sys, "_base_executable", None) or sys.executable).resolve()


@functools.cache
def make_view(packages: tuple[str, ...]) -> View:
    """The view with the standard library and these packages.

    Raises:
        ConfigError: a package isn't installed, or must not be shown.
    """
    executable = interpreter()
    prefix = executable.parent.parent
    folders: list[str] = []
    links = []
    for name in (*SYSTEM_LIBRARIES, str(prefix / "lib"), str(prefix / "lib64")):
        if os.path.islink(name):
            links.append((os.readlink(name), name))
        elif os.path.isdir(name) and not any(Path(name).is_relative_to(folder) for folder in folders):
            folders.append(name)
    found = (str(path) for folder in folders for pattern in HIDDEN for path in Path(folder).glob(pattern))
    files = [str(executable), *(name for name in SYSTEM_FILES if os.path.exists(name))]
    binds = tuple((name, name) for name in (*folders, *files))
    masks = tuple(sorted(path for path in found if not os.path.islink(path)))
    return View(binds, tuple(_bind_packages(packages)), masks, tuple(links))


def _bind_packages(packages: tuple[str, ...]) -> list[tuple[str, str]]:
    """Everything that the distributions of these packages installed at the top of site-packages."""
    if not packages:
        return []
    from importlib import metadata  # slow, and rarely needed

    owners = metadata.packages_distributions()
    sources: set[str] = set()
    for package in packages:
        if package in ("agent_envs", "agent_trainer"):
            raise ConfigError(f"{package} can make the gold answers of its tasks, so a sandbox never shows it")
        if package not in owners:
            raise ConfigError(f"the package {package!r} for the sandbox is not installed; name packages as imported")
        for distribution in map(metadata.distribution, owners[package]):
            tops = {file.parts[0] for file in distribution.files or ()} - {"..", "__pycache__"}
            sources |= {str(distribution.locate_file(top)) for top in tops}
    return [(path, f"{PACKAGES_FOLDER}/{os.path.basename(path)}") for path in sorted(sources) if os.path.exists(path)]
