"""Index folders, opened: a folder or a server's address becomes a retriever."""

from __future__ import annotations

from pathlib import Path

from agent_envs.errors import DataError
from agent_envs.retrieval.base import Retriever
from agent_envs.retrieval.manifest import check_files, read_manifest


def load_index(folder: str | Path, *, verify: bool | None = None) -> Retriever:
    """The retriever over an index folder. Its files are memory-mapped where their kind allows.

    Args:
        folder: what ``agentr1 index build`` wrote.
        verify: True hashes every file, False none, None those up to 256 MiB.

    Raises:
        DataError: the folder is no finished index, is damaged, or is of a newer format.
        ConfigError: its encoder is another model than the one that made the vectors.
        MissingExtraError: the index is dense, and the extra ``retrieval`` is not installed.
    """
    folder = Path(folder)
    manifest = read_manifest(folder)
    check_files(folder, manifest, verify=verify)
    raise DataError(f"{folder}: unknown kind of index {manifest.kind!r}")
