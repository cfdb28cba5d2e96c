"""An MCP server over stdio by hand, without the SDK: small, quick to start, and as ill-behaved as its options say.

python small_mcp_server.py [MARK] [--bad-schema] [--endless-list] [--hang-list] [--mute] [--stubborn]
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

TEXT = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
CANCELLED: list[int] = []
NOTHING = {"type": "object", "properties": {}}
NESTED = {
    "type": "object",
    "properties": {"box": {"$ref": "#/$defs/Box"}},
    "$defs": {"Box": {"title": "Box", "type": "object", "properties": {"size": {"type": "integer"}}}},
}


class RpcError(Exception):
    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


def text(content: str, **more: Any) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": content}], **more}


def mixed(_: Any) -> dict[str, Any]:
    blob = {"uri": "file:///a.bin", "mimeType": "application/x", "blob": "AAAA"}
    blocks = [
        {"type": "text", "text": "first"},
        {"type": "image", "data": "AAAAAA==", "mimeType": "image/png"},
        {"type": "audio", "data": "AAA=", "mimeType": "audio/wav"},
        {"type": "resource_link", "name": "notes", "uri": "file:///notes.txt"},
        {"type": "resource", "resource": {"uri": "file:///a.txt", "text": "inside"}},
        {"type": "resource", "resource": blob},
    ]
    return {"content": blocks}


def refuse(_: Any) -> dict[str, Any]:
    raise RpcError(-32602, "text must be shorter")


def break_down(_: Any) -> dict[str, Any]:
    raise RpcError(-32603, "out of order")


def die(_: Any) -> dict[str, Any]:
    print("I am dying", file=sys.stderr, flush=True)
    os._exit(3)


def noise(_: Any) -> dict[str, Any]:
    print("not JSON at all", flush=True)
    return text("after the noise")


def slow(_: Any) -> dict[str, Any]:
    time.sleep(0.3)
    return text("late")


TOOLS: dict[str, tuple[dict[str, Any], Callable[[Any], dict[str, Any]]]] = {
    "echo": (TEXT, lambda arguments: text(arguments["text"])),
    "fail": (NOTHING, lambda _: text("no such file", isError=True)),
    "slow": (NOTHING, slow),
    "die": (NOTHING, die),
    "huge": (NOTHING, lambda _: text("x" * 3_000_000, structuredContent={"all": "y" * 3_000_000})),
    "mixed": (NOTHING, mixed),
    "structured": (NOTHING, lambda _: {"content": [], "structuredContent": {"found": 2}}),
    "empty": (NOTHING, lambda _: {"content": []}),
    "refuse": (NOTHING, refuse),
    "break": (NOTHING, break_down),
    "environment": (NOTHING, lambda _: text(" ".join(sorted(os.environ)))),
    "garbage": (NOTHING, lambda _: {"content": "not a list of blocks"}),
    "cancelled": (NOTHING, lambda _: text(str(len(CANCELLED)))),
    "noise": (NOTHING, noise),
    "nested": (NESTED, lambda arguments: text(json.dumps(arguments))),
    "say <|im_end|>\n it": (NOTHING, lambda _: text("said")),
    "say (|im_end|) it": (NOTHING, lambda _: text("said too")),
}


def listing(cursor: str | None) -> dict[str, Any]:
    """Two pages, or one after another for ever."""
    if "--endless-list" in sys.argv:
        return {"tools": [], "nextCursor": str(int(cursor or 0) + 1)}
    tools = [{"name": name, "description": "d" * 10_000, "inputSchema": schema} for name, (schema, _) in TOOLS.items()]
    if "--bad-schema" in sys.argv:
        tools.append({"name": "bad", "inputSchema": {"type": "object", "properties": {"x": {"type": "no type"}}}})
    return {"tools": tools[5:]} if cursor else {"tools": tools[:5], "nextCursor": "5"}


def answer(method: str, parameters: dict[str, Any]) -> dict[str, Any]:
    if method == "initialize":
        return {
            "protocolVersion": parameters["protocolVersion"],
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "small", "version": "1"},
        }
    if method == "tools/list":
        return listing(parameters.get("cursor"))
    if method == "tools/call":
        return TOOLS[parameters["name"]][1](parameters.get("arguments") or {})
    raise RpcError(-32601, f"no method {method}")


def main() -> None:
    if "--stubborn" in sys.argv:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)", sys.argv[1]])
    for line in sys.stdin:
        request = json.loads(line)
        CANCELLED.extend([1] if request["method"] == "notifications/cancelled" else [])
        if "id" not in request or "--mute" in sys.argv:
            continue
        if request["method"] == "tools/list" and "--hang-list" in sys.argv:
            continue
        reply: dict[str, Any] = {"jsonrpc": "2.0", "id": request["id"]}
        try:
            reply["result"] = answer(request["method"], request.get("params") or {})
        except RpcError as error:
            reply["error"] = {"code": error.code, "message": str(error)}
        print(json.dumps(reply), flush=True)
    if "--stubborn" in sys.argv:
        time.sleep(60)


if __name__ == "__main__":
    main()
