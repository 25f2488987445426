"""An MCP server with the older protocol on stdio, written without the SDK, as others have.

Its list of tools has two pages, and a third tool after `more` was called. Given a schema and a
value as arguments, every tool declares the schema and returns the value.
"""

from __future__ import annotations

import json
import sys
from typing import Any

NAMES = ["more", "echo"]
DECLARED = {"outputSchema": json.loads(sys.argv[1])} if sys.argv[1:] else {}
GIVEN = {"structuredContent": json.loads(sys.argv[2])} if sys.argv[1:] else {}


def say(message: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def listed(params: dict[str, Any]) -> dict[str, Any]:
    at = int(params.get("cursor", 0))
    tool = {"name": NAMES[at], "inputSchema": {"type": "object"}, **DECLARED}
    following = {"nextCursor": str(at + 1)} if at + 1 < len(NAMES) else {}
    return {"tools": [tool], **following}


def called(params: dict[str, Any]) -> dict[str, Any]:
    if params["name"] == "more":
        NAMES.append("third")
        say({"method": "notifications/tools/list_changed"})
    return {"content": [{"type": "text", "text": json.dumps(params.get("arguments"))}], **GIVEN}


def initialized(params: dict[str, Any]) -> dict[str, Any]:
    return {
        "protocolVersion": "2025-03-26",
        "capabilities": {"tools": {"listChanged": True}},
        "serverInfo": {"name": "plain", "version": "1"},
    }


METHODS = {"initialize": initialized, "tools/list": listed, "tools/call": called}

sys.stdout.write("a greeting that does not belong here\n")
for line in sys.stdin:
    asked = json.loads(line)
    if "id" not in asked:
        continue
    if (method := METHODS.get(asked["method"])) is None:
        error = {"code": -32601, "message": "Method not found"}
        say({"id": asked["id"], "error": error})
    else:
        say({"id": asked["id"], "result": method(asked.get("params", {}))})
