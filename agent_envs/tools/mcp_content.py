"""An MCP tool's result as text for the policy."""

from __future__ import annotations

import json
from typing import Any

from agent_envs.errors import ToolUseError
from agent_envs.tools.base import ToolOutput

MAX_CONTENT = 100_000  # characters; the episode's token budget cuts further, but should not have to read megabytes


def render_result(result: Any) -> ToolOutput:
    """The blocks of a ``CallToolResult`` one after another; what is no text is named, not shown.

    Raises:
        ToolUseError: the tool says that this is an error.
    """
    parts = [part for part in map(_render_block, result.content) if part]
    structured = result.structured_content
    if not parts and structured is not None:
        parts.append(json.dumps(structured, ensure_ascii=False))
    text = cut("\n".join(parts) or "(no output)")
    if result.is_error:
        raise ToolUseError(text)
    keep = structured is not None and len(json.dumps(structured)) <= MAX_CONTENT
    return ToolOutput(text, {"structured": structured} if keep else {})


def cut(text: str, limit: int = MAX_CONTENT) -> str:
    """The text, or its beginning and a mark."""
    return text if len(text) <= limit else f"{text[:limit]} [...]"


def _render_block(block: Any) -> str:
    if block.type == "text":
        return str(block.text)
    if block.type == "resource_link":
        return f"[resource {block.name}: {block.uri}]"
    if block.type == "resource":
        resource = block.resource
        text = getattr(resource, "text", None)
        return text if text is not None else f"[resource {resource.uri}: {_size(resource.blob)}, not shown]"
    return f"[{block.type} ({block.mime_type}): {_size(block.data)}, not shown]"


def _size(base64: str) -> str:
    return f"{len(base64.rstrip('=')) * 3 // 4} bytes"
