"""``agentr1 index serve``: a search index over HTTP."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.markup import escape

if TYPE_CHECKING:
    from agent_envs.retrieval.server import RetrievalServer


def serve(
    folder: Annotated[Path, typer.Argument(help="What `agentr1 index build` made.")],
    host: Annotated[
        str, typer.Option(help="The address to listen at. There is no access control: mind who can reach it.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="0 for any that is free.")] = 8000,
    encoder: Annotated[
        str | None, typer.Option(help="Where the model of a dense index is, if not where its manifest says.")
    ] = None,
    max_batch: Annotated[int, typer.Option(help="Queries searched together; 1 turns batching off.")] = 64,
    max_wait_ms: Annotated[float, typer.Option(help="How long a query may wait for company.")] = 2.0,
    max_queue: Annotated[int, typer.Option(help="Queries that may wait; more are answered with status 429.")] = 4096,
) -> None:
    """Serve a search index in the protocol of Search-R1: POST /retrieve, and GET /health and /metrics.

    Environments take the address as index=. SIGTERM or Ctrl-C ends it, after what is under way has been answered.

    Example: agentr1 index serve indexes/wiki --port 8000
    """
    from agent_envs.retrieval.batching import BatchRules
    from agent_envs.retrieval.server import ServerOptions, open_folder
    from agent_envs.retrieval.server import serve as serve_index

    options = ServerOptions(BatchRules(max_batch, max_wait_ms, max_queue), max_queries=min(1024, max_queue))
    console = Console(soft_wrap=True)

    def announce(server: RetrievalServer) -> None:
        console.print(f"{escape(str(folder))} at {server.url} (GET /health says when it is loaded)")

    serve_index(lambda: open_folder(folder, encoder), host, port, options, announce)
