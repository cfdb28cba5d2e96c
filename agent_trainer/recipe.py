"""Recipes: a run in one YAML file, checked key by key, with ``key=value`` words of a command line on top.

A recipe holds ``model`` (a name or folder; ``package:FOLDER`` is one that comes with this package), the fields of
``AgentConfig``, and perhaps ``lora`` (arguments of ``peft.LoraConfig``). Unknown keys and values of the wrong type are
errors that name the key.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, get_type_hints

import yaml
from pydantic import ConfigDict, TypeAdapter, ValidationError

from agent_envs.errors import ConfigError

if TYPE_CHECKING:
    from agent_trainer.config import AgentConfig

_OWN_KEYS: dict[str, Any] = {"model": str, "lora": dict[str, Any] | None}


@dataclass(frozen=True, slots=True)
class Recipe:
    """A run, read and checked.

    Attributes:
        name: the file's name without its ending.
        model: a name or folder.
        options: fields of ``AgentConfig``.
        lora: arguments of ``peft.LoraConfig``, or None to train every weight.
    """

    name: str
    model: str
    options: Mapping[str, Any] = field(default_factory=dict)
    lora: Mapping[str, Any] | None = None

    def config(self) -> AgentConfig:
        """The options as ``AgentConfig``; without one of its own, the output goes to ``runs/NAME``.

        Raises:
            ConfigError: options that contradict each other.
        """
        from agent_trainer.config import AgentConfig

        return AgentConfig(**{"output_dir": f"runs/{self.name}", **self.options})

    def peft_config(self) -> Any:
        """``peft.LoraConfig``, or None.

        Raises:
            ConfigError: an argument that it does not take.
        """
        if self.lora is None:
            return None
        from peft import LoraConfig

        try:
            return LoraConfig(**{"task_type": "CAUSAL_LM", **self.lora})
        except TypeError as error:
            raise ConfigError(f"recipe {self.name}: lora: {error}") from error


def recipe_names() -> list[str]:
    """The recipes that come with the package."""
    folder = resources.files("agent_trainer") / "recipes"
    return sorted(entry.name.removesuffix(".yaml") for entry in folder.iterdir() if entry.name.endswith(".yaml"))


def load_recipe(path_or_name: str, overrides: Sequence[str] = ()) -> Recipe:
    """Reads a recipe.

    Args:
        path_or_name: a YAML file, or the name of one that comes with the package.
        overrides: ``key=value`` words; the value is read as YAML. A dot reaches into a mapping:
            ``env_kwargs.split=mini/test``.

    Raises:
        ConfigError: there is no such recipe, it is no YAML mapping, a key is unknown, a value has the wrong type, or
            the model is missing.
    """
    path = Path(path_or_name)
    if path.is_file():
        text, name = path.read_text(encoding="utf-8"), path.stem
    else:
        name = path_or_name.removesuffix(".yaml")
        if name not in recipe_names():
            raise ConfigError(f"no file and no recipe {path_or_name!r}; recipes: {', '.join(recipe_names())}")
        text = (resources.files("agent_trainer") / "recipes" / f"{name}.yaml").read_text(encoding="utf-8")
    values = _read_yaml(text, path_or_name)
    for word in overrides:
        _override(values, word)
    kinds = _kinds()
    checked = {key: _checked(key, value, kinds) for key, value in values.items()}
    if checked.get("model") is None:
        raise ConfigError(f"recipe {name}: no model; add `model: NAME-OR-FOLDER`, or model=... on the command line")
    model = model_location(checked["model"])
    options = {key: value for key, value in checked.items() if key not in _OWN_KEYS}
    return Recipe(name, model, options, checked.get("lora"))


def model_location(model: str) -> str:
    """The name or folder of a model; ``package:FOLDER`` becomes a folder inside this package.

    Raises:
        ConfigError: the package has no such folder.
    """
    if not model.startswith("package:"):
        return model
    folder = Path(str(resources.files("agent_trainer"))) / model.removeprefix("package:")
    if not folder.is_dir():
        raise ConfigError(f"{model}: this installation has no folder {folder}")
    return str(folder)


class _PlainYaml(yaml.SafeLoader):
    """YAML without its surprises: ``no`` and ``on`` are words, ``1e-6`` is a number, a repeated key is an error."""

    yaml_implicit_resolvers: ClassVar[dict[str, Any]] = {
        first: [(tag, pattern) for tag, pattern in rules if tag != "tag:yaml.org,2002:bool"]
        for first, rules in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        keys = [self.construct_object(key, deep=True) for key, _ in node.value]
        twice = [key for index, key in enumerate(keys) if key in keys[:index]]
        if twice:
            raise yaml.constructor.ConstructorError(None, None, f"the key {twice[0]!r} comes twice", node.start_mark)
        return super().construct_mapping(node, deep)


_PlainYaml.add_implicit_resolver("tag:yaml.org,2002:bool", re.compile(r"^(?:true|false)$", re.IGNORECASE), list("tTfF"))
_PlainYaml.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"^[-+]?[0-9]+(?:\.[0-9]*)?[eE][-+]?[0-9]+$"), list("-+0123456789")
)


def _read_yaml(text: str, where: str) -> dict[str, Any]:
    try:
        values = yaml.load(text, Loader=_PlainYaml)  # a SafeLoader
    except yaml.YAMLError as error:
        raise ConfigError(f"{where} is no YAML: {' '.join(str(error).split())}") from error
    if not isinstance(values, dict):
        raise ConfigError(f"{where}: expected a mapping of options, such as `max_steps: 100`, got {values!r}")
    return values


def _override(values: dict[str, Any], word: str) -> None:
    """Sets one ``key=value``."""
    key, equals, text = word.partition("=")
    if not equals or not key:
        raise ConfigError(f"expected key=value, such as max_steps=100, not {word!r}")
    try:
        value = yaml.load(text, Loader=_PlainYaml) if text else ""
    except yaml.YAMLError:
        value = text
    head, dot, rest = key.partition(".")
    if not dot:
        values[key] = value
        return
    inner = values.setdefault(head, {})
    if not isinstance(inner, dict):
        raise ConfigError(f"{word!r}: {head} is {inner!r}, no mapping that {rest!r} could be set in")
    inner[rest] = value


def _kinds() -> dict[str, Any]:
    """The type of every key."""
    from agent_trainer.config import AgentConfig

    hints = get_type_hints(AgentConfig)
    return {**{f.name: hints[f.name] for f in fields(AgentConfig) if f.init}, **_OWN_KEYS}


def _checked(key: str, value: Any, kinds: Mapping[str, Any]) -> Any:
    """The value in its key's type; numbers that YAML takes for text (such as 1e-6) become numbers.

    Raises:
        ConfigError: the key is unknown, or the value does not fit.
    """
    if key not in kinds:
        close = difflib.get_close_matches(str(key), list(kinds), n=1)
        hint = f" Did you mean {close[0]!r}?" if close else ""
        raise ConfigError(f"unknown option {key!r}.{hint} See AgentConfig, or agentr1 train --help")
    kind = kinds[key]
    adapter: TypeAdapter[Any] = TypeAdapter(kind, config=None if _has_own_config(kind) else _LAX)
    try:
        return adapter.validate_python(value)
    except ValidationError as error:
        wanted = getattr(kind, "__name__", str(kind)) if isinstance(kind, type) else str(kind)
        raise ConfigError(f"{key} is {wanted.replace('typing.', '')}, not {value!r}") from error


_LAX = ConfigDict(arbitrary_types_allowed=True, coerce_numbers_to_str=True)


def _has_own_config(kind: Any) -> bool:
    """Dataclasses and pydantic models bring their configuration, and refuse another."""
    return isinstance(kind, type) and (hasattr(kind, "__dataclass_fields__") or hasattr(kind, "model_fields"))
