"""Messages over the socket between the two halves: lists of texts, so that reading one from hostile code is safe."""

from __future__ import annotations

import os
import struct

_NUMBER = struct.Struct("!I")
HEADER = _NUMBER.size
_CHUNK = 1 << 20


def pack(texts: list[str]) -> bytes:
    """A message: its length, then each text with its length."""
    encoded = [text.encode("utf-8", "backslashreplace") for text in texts]
    return frame(b"".join(_NUMBER.pack(len(text)) + text for text in encoded))


def frame(body: bytes) -> bytes:
    """The body with its length before it."""
    return _NUMBER.pack(len(body)) + body


def send(link: int, texts: list[str]) -> None:
    """Sends a message over a blocking socket."""
    message = pack(texts)
    while message:
        message = message[os.write(link, message) :]


def receive(link: int) -> bytes | None:
    """Waits for the body of the next message; None where there will be none."""
    header = _exactly(link, HEADER)
    return None if header is None else _exactly(link, body_length(header))


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


def _exactly(link: int, count: int) -> bytes | None:
    data = bytearray()
    while len(data) < count:
        more = os.read(link, min(count - len(data), _CHUNK))
        if not more:
            return None
        data += more
    return bytes(data)
