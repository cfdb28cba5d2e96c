"""Messages over the socket between the two halves: lists of texts, so that reading one from hostile code is safe."""

from __future__ import annotations

import struct

_NUMBER = struct.Struct("!I")
HEADER = _NUMBER.size


def pack(texts: list[str]) -> bytes:
    """A message: its length, then each text with its length."""
    encoded = [text.encode("utf-8", "backslashreplace") for text in texts]
    return frame(b"".join(_NUMBER.pack(len(text)) + text for text in encoded))


def frame(body: bytes) -> bytes:
    """The body with its length before it."""
    return _NUMBER.pack(len(body)) + body


def body_length(header: bytes) -> int:
    """How many bytes follow the header."""
    return int(_NUMBER.unpack(header)[0])


def unpack(body: bytes) -> list[str]:
    """The texts of a message's body.

    Raises:
        ValueError: it isn't one.
    """
    texts, position = [], 0
    while position < len(body):
        if position + HEADER > len(body):
            raise ValueError("a message ends within a length")
        start = position + HEADER
        position = start + body_length(body[position:start])
        if position > len(body):
            raise ValueError("a message ends within a text")
        texts.append(body[start:position].decode("utf-8", "replace"))
    return texts
