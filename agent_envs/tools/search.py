"""The search tool: one query in, the best passages out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from agent_envs.retrieval.base import Hit, Retriever
from agent_envs.tools.base import Tool, ToolOutput, tool

NOTHING_FOUND = "Nothing was found."


def search_tool(retriever: Retriever, top_k: int, timeout_s: float | None = None) -> Tool:
    """A tool ``search(query)`` over a retriever; all queries of a turn go to it as one batch."""

    def search(query: str) -> ToolOutput:
        """Search an encyclopaedia for passages that match a query.

        Args:
            query: the words to look for, such as a name.
        """
        return run_batch([{"query": query}])[0]

    def run_batch(calls: Sequence[Mapping[str, Any]]) -> list[ToolOutput]:
        found = retriever.search([call["query"] for call in calls], top_k)
        return [ToolOutput(render_hits(hits), describe_hits(hits)) for hits in found]

    return tool(search, batch=run_batch, timeout_s=timeout_s)


def describe_hits(hits: Sequence[Hit]) -> dict[str, list[str]]:
    """What graders see of the hits: titles, and keys of the very passages, since titles repeat."""
    return {"titles": [hit.passage.title for hit in hits], "keys": [hit.passage.key for hit in hits]}


def render_hits(hits: Sequence[Hit]) -> str:
    """The hits as the policy reads them, best first: ``[rank] title``, then the text on a line of its own."""
    if not hits:
        return NOTHING_FOUND
    return "\n".join(f"[{rank}] {hit.passage.title}\n{hit.passage.text}" for rank, hit in enumerate(hits, start=1))
