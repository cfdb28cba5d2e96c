"""Rows of data sets on the Hugging Face Hub, with the library ``datasets``."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from agent_envs.data.rows import Row
from agent_envs.errors import DataError, MissingExtraError


def hub_source(name: str, config: str | None, split: str) -> str:
    """What messages call a set."""
    return f"{name} ({config}, {split})" if config else f"{name} ({split})"


def names_file(dataset: str) -> bool:
    """True where a data set is a file by its name; otherwise it is a folder, or a name on the hub."""
    path = Path(dataset)
    return not path.is_dir() and (path.exists() or path.suffix in (".json", ".jsonl") or dataset.count("/") != 1)


def hub_rows(name: str, config: str | None, split: str) -> Iterable[Row]:
    """The rows of a set (or of a local folder that ``datasets`` can load).

    Raises:
        DataError: it cannot be loaded.
        MissingExtraError: ``datasets`` is not installed.
    """
    try:
        import datasets
    except ImportError as error:
        raise MissingExtraError(
            f'reading {name!r} from the Hub needs datasets: pip install "agent-r1[train]" (or give the path of a file)'
        ) from error
    source = hub_source(name, config, split)
    try:
        loaded = datasets.load_dataset(name, config, split=split)
    except Exception as error:  # load_dataset raises anything from OSError to KeyError
        reason = (str(error).splitlines() or [""])[0]
        raise DataError(
            f"{source}: expected the path of a file, or a data set on the Hub with this configuration and split; "
            f"loading it failed with {type(error).__name__}: {reason}"
        ) from error
    return (Row(f"{source}, row {n}", row) for n, row in enumerate(loaded, start=1))
