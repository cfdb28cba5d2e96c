"""Talks to a sandbox: messages over a socket, output over pipes, both at once and neither ever blocking."""

from __future__ import annotations

import os
import select
import selectors
import socket
import time
from collections.abc import Sequence
from enum import StrEnum
from typing import IO

from agent_envs.sandbox.execution import OutputBuffer
from agent_envs.sandbox.inside import channel
from agent_envs.sandbox.limits import MIB

OUTPUT_BYTES_THAT_KILL = 16 * MIB
_CHUNK = 1 << 16


class Silence(StrEnum):
    """Why no message came."""

    ENDED = "it ended"
    TIMEOUT = "it did not answer in time"
    OUTPUT = "it wrote too much"
    GARBAGE = "it sent something that is no message"


class Wire:
    """The near end of a sandbox's socket and of its stdout and stderr."""

    def __init__(self, link: socket.socket, pipes: Sequence[IO[bytes]], chars: int) -> None:
        """Takes them over; ``chars`` of each output are kept."""
        self._link = link
        self._pipes = pipes
        self._chars = chars
        self._outputs = [OutputBuffer(chars) for _ in pipes]
        self._outgoing = b""
        self._inbox = bytearray()
        link.setblocking(False)
        for pipe in pipes:
            os.set_blocking(pipe.fileno(), False)

    def exchange(self, message: bytes, timeout_s: float) -> list[str] | Silence:
        """Sends a message and waits for the answer, reading output all the while.

        An answer that was there before the message is the code's own, and garbage: it would be taken for this one's.
        """
        deadline = time.monotonic() + timeout_s
        self._outgoing = message
        self._outputs = [OutputBuffer(self._chars) for _ in self._pipes]
        if self._holds_an_answer():
            return Silence.GARBAGE
        with selectors.DefaultSelector() as selector:
            for pipe, output in zip(self._pipes, self._outputs, strict=True):
                selector.register(pipe, selectors.EVENT_READ, output)
            selector.register(self._link, selectors.EVENT_READ | selectors.EVENT_WRITE)
            while (left := deadline - time.monotonic()) > 0:
                answers = [self._serve(selector, key, events) for key, events in selector.select(left)]
                answer = next((answer for answer in answers if answer is not None), None)
                if answer is not None:
                    return answer
                if sum(output.total for output in self._outputs) > OUTPUT_BYTES_THAT_KILL:
                    return Silence.OUTPUT
        return Silence.TIMEOUT

    def texts(self) -> tuple[str, str]:
        """What was written to stdout and stderr since the last message was sent, cut to size."""
        stdout, stderr = (output.text() for output in self._outputs)
        return stdout, stderr

    def hang_up(self) -> None:
        """Closes the socket for both ends, which the supervisor takes as the order to end."""
        self._link.shutdown(socket.SHUT_RDWR)

    def is_deserted(self, timeout_s: float) -> bool:
        """Waits until no process holds the far end of stdout any more; False where the time runs out before."""
        poll = select.poll()
        poll.register(self._pipes[0], 0)  # only its closing
        return bool(poll.poll(timeout_s * 1e3))

    def close(self) -> None:
        """Gives everything back."""
        self._link.close()
        for pipe in self._pipes:
            pipe.close()

    def _serve(
        self, selector: selectors.BaseSelector, key: selectors.SelectorKey, events: int
    ) -> list[str] | Silence | None:
        """Does what can be done now; gives the answer once it is there."""
        if key.data is not None:
            if not _drain(key.fd, key.data, 1):
                selector.unregister(key.fileobj)
            return None
        if events & selectors.EVENT_WRITE:
            self._send()
            if not self._outgoing:
                selector.modify(self._link, selectors.EVENT_READ)
        answer = self._receive() if events & selectors.EVENT_READ else None
        if answer is not None:  # what was written before the answer
            for pipe, output in zip(self._pipes, self._outputs, strict=True):
                _drain(pipe.fileno(), output, OUTPUT_BYTES_THAT_KILL // _CHUNK)
        return answer

    def _holds_an_answer(self) -> bool:
        try:
            return bool(self._inbox) or bool(self._link.recv(1, socket.MSG_PEEK))
        except OSError:  # nothing has come, or nothing can
            return False

    def _send(self) -> None:
        try:
            self._outgoing = self._outgoing[self._link.send(self._outgoing[: 16 * _CHUNK]) :]
        except BlockingIOError:
            return
        except OSError:  # closed: reading will tell
            self._outgoing = b""

    def _receive(self) -> list[str] | Silence | None:
        try:
            data = self._link.recv(_CHUNK)
        except BlockingIOError:
            return None
        except OSError:
            return Silence.ENDED
        if not data:
            return Silence.ENDED
        self._inbox += data
        if len(self._inbox) < channel.HEADER:
            return None
        length = channel.body_length(bytes(self._inbox[: channel.HEADER]))
        if length > 100 * self._chars:  # the worker cuts what it sends
            return Silence.GARBAGE
        stop = channel.HEADER + length
        if len(self._inbox) < stop:
            return None
        body = bytes(self._inbox[channel.HEADER : stop])
        del self._inbox[:stop]
        try:
            return channel.unpack(body)
        except ValueError:
            return Silence.GARBAGE


def _drain(fd: int, output: OutputBuffer, reads: int) -> bool:
    """Reads so often at most; False at the end of the pipe."""
    for _ in range(reads):
        try:
            data = os.read(fd, _CHUNK)
        except BlockingIOError:
            return True
        if not data:
            return False
        output.add(data)
    return True
