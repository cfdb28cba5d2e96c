"""The PyPI package bfcl-eval: where its data lies, and its checkers without what its model handlers import.

Only its standard-library parts and mpmath are used. Its requirements (numpy 1.26, and a client for each vendor's
models) are not, and would not install beside this project's, which is why it comes with ``--no-deps``.
"""

from __future__ import annotations

import builtins
import contextlib
import decimal
import functools
import importlib
import importlib.util
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

from agent_envs.errors import MissingExtraError

VERSION = "2026.3.23"  # what this release was tested with
MODEL_NAME = "agent-r1"  # how the checkers know the policy

_CHECKERS = "bfcl_eval.eval_checker"
_MODEL_TABLE = "bfcl_eval.constants.model_config"
_LOCK = threading.RLock()


def require_package() -> None:
    """Makes sure that the package is there.

    Raises:
        MissingExtraError: it isn't, or mpmath isn't; the message says how to install them.
    """
    missing = [name for name in ("bfcl_eval", "mpmath") if importlib.util.find_spec(name) is None]
    if missing:
        raise MissingExtraError(
            f"AgentR1/BFCL-v0 plays the data, APIs and checkers of bfcl-eval; {' and '.join(missing)} cannot be "
            f'imported. Run: pip install "agent-r1[bfcl]" && pip install --no-deps bfcl-eval=={VERSION} '
            "(without --no-deps it would replace numpy and bring some fifty packages that this project never uses)"
        )


def data_folder() -> Path:
    """The folder with the data files.

    Raises:
        MissingExtraError: the package is not installed.
    """
    require_package()
    spec = importlib.util.find_spec("bfcl_eval")
    assert spec is not None and spec.origin is not None
    return Path(spec.origin).parent / "data"


@functools.lru_cache(maxsize=1)
def ast_checker() -> Callable[..., dict[str, Any]]:
    """The checker of calls as written.

    Its module imports the table of all model handlers, and with it every vendor's client, to look up one flag: whether
    a model writes "_" for the "." in functions' names. A private copy of the module gets that flag without the table.
    """
    require_package()
    table = SimpleNamespace(MODEL_CONFIG_MAPPING={MODEL_NAME: SimpleNamespace(underscore_to_dot=True)})

    def import_lightly(name: str, *rest: Any) -> Any:
        return table if name == _MODEL_TABLE else builtins.__import__(name, *rest)

    spec = importlib.util.find_spec(f"{_CHECKERS}.ast_eval.ast_checker")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    module.__dict__["__builtins__"] = {**vars(builtins), "__import__": import_lightly}
    spec.loader.exec_module(module)
    checker: Callable[..., dict[str, Any]] = module.ast_checker
    return checker


def python_language() -> Any:
    """How the checkers are told that calls are in Python's types."""
    return module("bfcl_eval.constants.enums").Language.PYTHON


def multi_turn_checker() -> Callable[..., dict[str, Any]]:
    """The checker of a whole conversation, which runs all calls again."""
    checker: Callable[..., dict[str, Any]] = module(
        f"{_CHECKERS}.multi_turn_eval.multi_turn_checker"
    ).multi_turn_checker
    return checker


def forget_instances(prefix: str) -> None:
    """Drops the simulated APIs that the checker keeps as globals under names with this prefix."""
    kept = vars(module(f"{_CHECKERS}.multi_turn_eval.multi_turn_utils"))
    for name in [name for name in list(kept) if name.startswith(prefix)]:
        kept.pop(name, None)


def api_class(name: str) -> type[Any]:
    """A simulated API by its class's name, such as ``TravelAPI``."""
    found: type[Any] = getattr(module(_backend().CLASS_FILE_PATH_MAPPING[name]), name)
    return found


def is_stateless(name: str) -> bool:
    """Whether an API has no scenario to load."""
    return name in _backend().STATELESS_CLASSES


def function_doc_file(name: str) -> str:
    """The file under ``multi_turn_func_doc`` that describes an API's functions."""
    return str(_backend().MULTI_TURN_FUNC_DOC_FILE_MAPPING[name])


def json_types() -> dict[str, str]:
    """JSON schema's name for each type that a function's description may name."""
    return dict(module("bfcl_eval.constants.type_mappings").GORILLA_TO_OPENAPI)


@contextlib.contextmanager
def alone() -> Iterator[None]:
    """Runs simulated APIs one at a time: some set the precision of mpmath and decimal for the whole process.

    Both are put back afterwards.
    """
    mpmath = module("mpmath")
    with _LOCK, mpmath.workdps(mpmath.mp.dps), decimal.localcontext():
        yield


def module(name: str) -> ModuleType:
    """A module of the package.

    Raises:
        MissingExtraError: the package is not installed.
    """
    require_package()
    return importlib.import_module(name)


def _backend() -> ModuleType:
    return module("bfcl_eval.constants.executable_backend_config")
