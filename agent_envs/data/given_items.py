"""Items that a user gives: a list, a JSON Lines file, a generator function, or a function of the index."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias, overload

from agent_envs.data.rows import read_rows
from agent_envs.errors import ConfigError, DataError
from agent_envs.named_functions import require_arguments

Item: TypeAlias = Mapping[str, Any]
ItemSource: TypeAlias = str | Path | Iterable[Item] | Callable[[], Iterable[Item]] | Callable[[int], Item]


class GeneratedItems(Sequence[Item]):
    """Items that a function makes of their index, each time they are asked for."""

    def __init__(self, make: Callable[[int], Item], count: int) -> None:
        """``make`` gives the same item for the same index, every time and in every process."""
        self._make = make
        self._count = count

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, index: int) -> Item: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[Item]: ...

    def __getitem__(self, index: int | slice) -> Item | Sequence[Item]:
        if isinstance(index, slice):
            return [self[one] for one in range(*index.indices(self._count))]
        if not 0 <= index < self._count:
            raise IndexError(f"item {index} of {self._count}")
        return _checked(self._make(index), f"item {index}")


def read_items(source: ItemSource, num_items: int = 0) -> Sequence[Item]:
    """The items, checked: each is a mapping with a text under "question".

    Args:
        source: mappings in a list or another collection; a path of JSON Lines (or of a JSON array); a function without
            arguments that gives them; or, with ``num_items``, a function that gives the item of an index.
        num_items: how many items the function of the index has.

    Raises:
        ConfigError: the source is none of these, or can be read only once.
        DataError: there is no item, or one is not as expected.
    """
    if callable(source) and num_items > 0:
        return GeneratedItems(source, num_items)  # type: ignore[arg-type]
    if num_items:
        raise ConfigError(f"num_items={num_items} belongs to items given as a function of the index, not to {source!r}")
    if isinstance(source, str | Path):
        items = tuple(_checked(row.fields, row.where) for row in read_rows(source))
    else:
        items = tuple(_checked(item, f"item {index}") for index, item in enumerate(_iterated(source)))
    if not items:
        raise DataError("there are no items: expected at least one")
    return items


def _iterated(source: Any) -> Iterable[Item]:
    if isinstance(source, Iterator):
        raise ConfigError(
            "items came as an iterator, which can be read only once and cannot be part of an environment's spec; "
            "give a list, or the generator function itself, without calling it"
        )
    if callable(source):
        require_arguments(source, "items without num_items (which a function of the index needs)")
        source = source()
    items = source
    if not isinstance(items, Iterable) or isinstance(items, Mapping):
        raise ConfigError(f"items: expected a list of mappings, a path, or a function that gives them, not {items!r}")
    return items


def _checked(item: Any, where: str) -> Item:
    if not isinstance(item, Mapping):
        raise DataError(f'{where}: expected a mapping such as {{"question": ..., "answer": ...}}, found {item!r:.80}')
    question = item.get("question")
    if not isinstance(question, str) or not question.strip():
        raise DataError(f'{where}: expected a text under "question", found {question!r:.80}')
    return item
