"""How far a build has come, on disk: after a kill, the next one goes on from the last full piece.

A stage appends to files and notes their lengths at each checkpoint. What a killed process wrote behind the last
checkpoint is cut off before the stage goes on, so that the finished files are the same bytes as without the kill.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from agent_envs.errors import ConfigError, DataError
from agent_envs.retrieval.manifest import write_json

JOURNAL = "build.json"


@contextmanager
def building_alone(folder: Path) -> Iterator[None]:
    """Makes the folder where it does not exist, and keeps other builds out of it; a killed one keeps nobody out.

    Raises:
        ConfigError: another build is running there.
    """
    folder.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError as error:
        raise ConfigError(f"{folder}: another build is running there; wait for it, or choose another folder") from error
    finally:
        os.close(descriptor)


class Journal:
    """The state of the build in a folder."""

    def __init__(self, folder: Path, settings: Mapping[str, Any]) -> None:
        """Begins a build, or takes up an interrupted one.

        Args:
            folder: where the index goes.
            settings: everything that the result depends on, as plain data.

        Raises:
            ConfigError: the folder holds the begun build of other settings, or something else.
            DataError: the folder's state cannot be read.
        """
        self.folder = folder
        self._path = folder / JOURNAL
        self._state: dict[str, Any] = {"settings": json.loads(json.dumps(settings)), "stages": {}}
        if self._path.exists():
            self._take_up(self._state["settings"])
        elif any(folder.iterdir()):
            raise ConfigError(f"{folder}: expected an empty folder or none to build an index in, but it has files")
        else:
            write_json(self._path, self._state)

    def _take_up(self, settings: Mapping[str, Any]) -> None:
        try:
            state = json.loads(self._path.read_bytes())
            begun, _ = state["settings"], state["stages"]
        except (ValueError, KeyError, TypeError) as error:
            raise DataError(f"{self._path}: cannot be read ({error!r}); delete the folder and build anew") from error
        names = sorted(name for name in {*begun, *settings} if begun.get(name) != settings.get(name))
        if names:
            changes = "; ".join(f"{name} was {begun.get(name)!r} and is {settings.get(name)!r}" for name in names)
            raise ConfigError(
                f"{self.folder}: an interrupted build of other settings is in the way: {changes}. "
                "Run it with the same settings to finish it, choose another folder, or delete this one"
            )
        self._state = state

    def rows(self, stage: str) -> int:
        """How many rows of a stage are safe on disk."""
        return int(self._stage(stage).get("rows", 0))

    def is_done(self, stage: str) -> bool:
        """True once a stage was finished."""
        return bool(self._stage(stage).get("done"))

    def finish(self, stage: str) -> None:
        """Notes that a stage is finished."""
        self._state["stages"][stage] = {**self._stage(stage), "done": True}
        write_json(self._path, self._state)

    @contextmanager
    def appending(self, stage: str, names: Sequence[str]) -> Iterator[list[BinaryIO]]:
        """Opens the files of a stage for appending, cut back to the last checkpoint."""
        sizes = self._stage(stage).get("sizes", {})
        with ExitStack() as stack:
            files: list[BinaryIO] = []
            for name in names:
                path = self.folder / name
                path.touch()
                os.truncate(path, sizes.get(name, 0))
                files.append(stack.enter_context(path.open("ab")))
            yield files

    def checkpoint(self, stage: str, rows: int, files: Sequence[BinaryIO]) -> None:
        """Notes that ``rows`` rows of a stage are written to its files, and makes it so."""
        sizes = {}
        for file in files:
            file.flush()
            os.fsync(file.fileno())
            sizes[Path(file.name).name] = file.tell()
        self._state["stages"][stage] = {"rows": rows, "sizes": sizes}
        write_json(self._path, self._state)

    def _stage(self, stage: str) -> Mapping[str, Any]:
        stages: Mapping[str, Mapping[str, Any]] = self._state["stages"]
        return stages.get(stage, {})
