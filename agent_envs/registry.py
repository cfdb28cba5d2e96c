"""A name-to-value table whose unknown names fail with the list of known ones."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from typing import Generic, TypeVar

from agent_envs.errors import UnknownNameError

T = TypeVar("T")


class Registry(Generic[T]):
    """Entries of one kind by name, in order of registration."""

    def __init__(self, kind: str) -> None:
        """``kind`` is the noun that error messages use, such as "tool format"."""
        self.kind = kind
        self._entries: dict[str, T] = {}

    def register(self, name: str, entry: T) -> T:
        """Adds an entry and gives it back.

        Raises:
            ValueError: the name is taken.
        """
        if name in self._entries:
            raise ValueError(f"the {self.kind} {name!r} is registered already")
        self._entries[name] = entry
        return entry

    def get(self, name: str) -> T:
        """The entry of that name.

        Raises:
            UnknownNameError: no such entry; the message lists the known names.
        """
        if name in self._entries:
            return self._entries[name]
        close = difflib.get_close_matches(str(name), list(self._entries), n=1)
        hint = f" Did you mean {close[0]!r}?" if close else ""
        raise UnknownNameError(f"unknown {self.kind} {name!r}; known: {', '.join(sorted(self._entries))}.{hint}")

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, name: object) -> bool:
        return name in self._entries
