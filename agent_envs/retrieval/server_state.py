"""The life of a served index: loading, ready, failed or stalled, stopping."""

from __future__ import annotations

import threading
from collections.abc import Callable
from enum import StrEnum

from agent_envs.retrieval.batching import DynamicBatcher
from agent_envs.retrieval.server_metrics import ServerMetrics
from agent_envs.retrieval.server_options import ServedIndex, ServerOptions


class Status(StrEnum):
    """What a server can say of itself."""

    LOADING = "loading"
    READY = "ready"
    STALLED = "stalled"  # the present search has outlasted the time that a request may take
    FAILED = "failed"
    STOPPING = "stopping"


class IndexService:
    """An index that is loaded in the background, and then searched in batches."""

    def __init__(self, load: Callable[[], ServedIndex], options: ServerOptions) -> None:
        """Starts nothing yet.

        Args:
            load: opens the index; it may take its time.
            options: of the server.
        """
        self.options = options
        self.metrics = ServerMetrics()
        self.index: ServedIndex | None = None
        self.batcher: DynamicBatcher | None = None
        self.failure: BaseException | None = None
        self.on_failure: Callable[[], None] | None = None
        self._load = load
        self._stopping = False

    @property
    def status(self) -> Status:
        """At this moment."""
        if self.failure is not None:
            return Status.FAILED
        if self._stopping:
            return Status.STOPPING
        if self.batcher is None:
            return Status.LOADING
        return Status.STALLED if self.batcher.busy_s > self.options.search_timeout_s else Status.READY

    def start(self) -> None:
        """Begins to load."""
        threading.Thread(target=self._open, name="retrieval-index", daemon=True).start()

    def stop(self) -> None:
        """Answers what waits, for as long as ``drain_s`` allows."""
        self._stopping = True
        if self.batcher is not None:
            self.batcher.close(self.options.drain_s)

    def _open(self) -> None:
        try:
            index = self._load()
            index.retriever.search(["ready?"], 1)  # so that what is set up by a first search is not by a client's
        except BaseException as error:  # whoever runs the server raises it
            self.failure = error
            if self.on_failure is not None:
                self.on_failure()
            return
        self.index = index
        batcher = DynamicBatcher(index.retriever.search, self.options.batching, self.metrics.observe_batch)
        self.batcher = batcher
        if self._stopping:  # meanwhile
            batcher.close(self.options.drain_s)
