"""Threads for code that may hang: a thread that does neither blocks other work nor keeps the process alive."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(slots=True, eq=False)
class Piece:
    """A piece of work in the pool's hands."""

    work: Callable[[], None]
    started: bool = False
    finished: bool = False
    given_up: bool = False


class DaemonPool:
    """Runs pieces of work on daemon threads, as many at once as there are pieces, or up to a limit.

    A thread whose work hangs can be given up: it no longer counts, and ends when its work does.
    """

    def __init__(self, name: str, max_threads: int | None = None) -> None:
        """Starts nothing yet.

        Args:
            name: of the threads.
            max_threads: pieces at once; None for no limit.
        """
        self._name = name
        self._max_threads = max_threads
        self._guard = threading.RLock()  # the collector may close the pool in any of its threads, at any moment
        self._waiting: queue.SimpleQueue[Piece | None] = queue.SimpleQueue()
        self._threads = 0  # those given up don't count
        self._free = 0  # idle threads, less the pieces that wait for one
        self._closed = False

    @property
    def num_threads(self) -> int:
        """Threads that take work, idle ones included; those that were given up don't count."""
        return self._threads

    def submit(self, work: Callable[[], None]) -> Piece:
        """Runs a piece of work, which must not raise, as soon as a thread is free.

        Raises:
            RuntimeError: the pool is closed, or the system has no thread left and the pool none of its own.
        """
        piece = Piece(work)
        with self._guard:
            if self._closed:
                raise RuntimeError("the pool is closed")
            if self._free < 1 and not self._is_full:
                self._start()
            self._free -= 1
            self._waiting.put(piece)
        return piece

    def give_up(self, piece: Piece) -> None:
        """Counts the piece's thread as lost, so that another may start in its place; a piece not begun never will be.

        A piece that is finished is left alone: its thread is at work on something else, or free.
        """
        with self._guard:
            if self._closed or piece.finished or piece.given_up:
                return
            piece.given_up = True
            if not piece.started:
                return
            self._threads -= 1
            if self._free < 0:
                self._start()

    def close(self) -> None:
        """Lets the threads end as soon as they are idle; work that no thread has begun is dropped."""
        with self._guard:
            if self._closed:
                return
            self._closed = True
            while not self._waiting.empty():
                self._waiting.get()
            for _ in range(self._threads):
                self._waiting.put(None)

    @property
    def _is_full(self) -> bool:
        return self._max_threads is not None and self._threads >= self._max_threads

    def _start(self) -> None:
        thread = threading.Thread(target=self._serve, name=self._name, daemon=True)
        try:
            thread.start()
        except RuntimeError:  # the system has no thread left: those that are there must do
            if self._threads == 0:
                raise
            return
        self._threads += 1
        self._free += 1

    def _serve(self) -> None:
        while self._serve_one():  # a call of its own each time, so that an idle thread holds on to no piece of work
            pass

    def _serve_one(self) -> bool:
        """Waits for a piece and runs it; False where the thread has to end."""
        piece = self._waiting.get()
        if piece is None:
            return False
        with self._guard:
            piece.started = not piece.given_up
        if piece.started:
            piece.work()
        with self._guard:
            if (piece.started and piece.given_up) or self._closed:
                return False
            piece.finished = True
            self._free += 1
        return True
