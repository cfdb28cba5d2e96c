"""What came of a run of sandboxed code."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Status = Literal["ok", "error", "timeout", "memory", "killed"]


@dataclass(frozen=True, slots=True)
class Execution:
    """One run of code. Its texts are cut to ``Limits.output_chars`` each, with a mark where something is missing.

    Attributes:
        status: "ok"; "error" (an exception); "timeout" (wall clock or processor time); "memory" (an uncaught
            ``MemoryError``); "killed" (the process died of something else, ``error`` says of what).
        stdout: what the code wrote there.
        stderr: what the code wrote there.
        value: the last expression's value as a REPL shows it, or None where there is none or it is None.
        error: the traceback, or a sentence about what stopped the code; "" with status "ok".
        seconds: wall-clock time of the code.
        restarted: of a session: what earlier cells had defined was gone before this cell ran.
    """

    status: Status
    stdout: str = ""
    stderr: str = ""
    value: str | None = None
    error: str = ""
    seconds: float = 0.0
    restarted: bool = False


class OutputBuffer:
    """Takes bytes without end and keeps the first and the last of them."""

    def __init__(self, chars: int) -> None:
        self._chars = chars
        self._room = 4 * chars  # a character of UTF-8 has up to 4 bytes
        self._head = bytearray()
        self._tail = bytearray()
        self.total = 0

    def add(self, data: bytes) -> None:
        """Takes what was read."""
        self.total += len(data)
        free = self._room - len(self._head)
        self._head += data[:free]
        self._tail += data[free:] if free else data
        if len(self._tail) > 4 * self._room:
            del self._tail[: -self._room]

    def text(self) -> str:
        """What was kept, as text, cut to size."""
        held = len(self._head) + len(self._tail)
        if held == self.total:
            return cut((self._head + self._tail).decode("utf-8", "replace"), self._chars)
        half = self._chars // 2
        head = self._head.decode("utf-8", "replace")[:half]
        tail = self._tail[-self._room :].decode("utf-8", "replace")[-half:]
        missing = self.total - len(head.encode()) - len(tail.encode())
        return f"{head}\n[... {missing} bytes cut ...]\n{tail}"


def cut(text: str, chars: int) -> str:
    """The text, or its head and tail of ``chars`` characters together."""
    if len(text) <= chars:
        return text
    half = chars // 2
    return f"{text[:half]}\n[... {len(text) - 2 * half} characters cut ...]\n{text[-half:]}"
