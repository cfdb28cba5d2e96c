"""Functions given by name, ``"module:function"`` or ``"folder/file.py:function"``: options that survive JSON."""

from __future__ import annotations

import functools
import hashlib
import importlib
import importlib.util
import inspect
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from agent_envs.errors import ConfigError


def load_function(name: str, option: str) -> Callable[..., Any]:
    """The function of that name.

    Args:
        name: an importable module, or a Python file, a colon, and the function's name in it.
        option: where the name came from, for messages.

    Raises:
        ConfigError: the name has no colon, the module cannot be imported, or has no such function.
    """
    module_name, colon, attribute = name.rpartition(":")
    if not colon or not module_name or not attribute:
        raise ConfigError(f'{option}: expected "module:function" or "folder/file.py:function", not {name!r}')
    function = getattr(_load_module(module_name, option), attribute, None)
    if not callable(function):
        raise ConfigError(f"{option}: {module_name!r} has no function {attribute!r}")
    return function  # type: ignore[no-any-return]


def require_arguments(function: Callable[..., Any], what: str, *arguments: str) -> None:
    """Refuses a function that cannot be called with these positional arguments, before it is needed.

    Args:
        function: a user's function.
        what: what it is, for the message, such as ``"score"``.
        arguments: what it is given, in words.

    Raises:
        ConfigError: it takes others, or is no function.
    """
    try:
        inspect.signature(function).bind(*arguments)
    except TypeError as error:
        given = ", ".join(arguments) or "no arguments"
        raise ConfigError(f"{what} is called with {given}, but {function!r}: {error}") from error
    except ValueError:  # a built-in function that doesn't say what it takes
        return


def _load_module(name: str, option: str) -> ModuleType:
    try:
        return _from_file(Path(name).resolve()) if name.endswith(".py") else importlib.import_module(name)
    except Exception as error:  # a module runs whatever it likes when it is imported
        raise ConfigError(f"{option}: cannot import {name!r} ({type(error).__name__}: {error})") from error


@functools.lru_cache(maxsize=64)
def _from_file(path: Path) -> ModuleType:
    """The module in a file, loaded once; its name holds a hash of the path, so that files of one name do not mix."""
    module_name = f"{path.stem}_{hashlib.sha256(str(path).encode()).hexdigest()[:12]}"
    spec = importlib.util.spec_from_file_location(module_name, path)
    if spec is None or spec.loader is None:
        raise FileNotFoundError(path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[module_name] = module  # dataclasses and pydantic look their module up there
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[module_name]
        raise
    return module
