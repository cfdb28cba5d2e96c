"""A clear word where a command needs an extra that is not installed."""

from __future__ import annotations

import importlib.util

from agent_envs.errors import MissingExtraError

_TRAIN = ("torch", "transformers", "trl", "peft", "datasets", "yaml", "matplotlib", "tensorboard")


def require_train_extra(what: str) -> None:
    """Checks, without importing them, that the libraries of the extra ``train`` are there.

    Raises:
        MissingExtraError: one is not; the message says how to get it.
    """
    missing = [name for name in _TRAIN if importlib.util.find_spec(name) is None]
    if missing:
        raise MissingExtraError(f'{what} needs {", ".join(missing)}: pip install "agent-r1[train]"')
