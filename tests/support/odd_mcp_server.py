"""An MCP server on stdio that sends whatever it is told to, and then a valid answer.

A call's argument `hex` contains the bytes to send first, with `@ID@` for the request's id. Its list
of tools is in the file named by the environment variable LISTED: a result, or a list of results for
one request after the other, of which the last is repeated. The file's name with `.asked` has a line
for each request. Clients ignore what is not JSON to
them: a valid answer always follows.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any


def say(content: bytes) -> None:
    sys.stdout.buffer.write(content + b"\n")
    sys.stdout.buffer.flush()


def say_result(request_id: Any, result: Any) -> None:
    say(json.dumps({"jsonrpc": "2.0", "id": request_id, "result": result}).encode())


HELLO = {
    "protocolVersion": "2025-03-26",
    "capabilities": {"tools": {}},
    "serverInfo": {"name": "odd", "version": "1"},
}

pages = 0
for line in sys.stdin:
    asked = json.loads(line)
    request_id = asked.get("id")
    if request_id is None:
        continue
    match asked["method"]:
        case "initialize":
            say_result(request_id, HELLO)
        case "tools/list":
            listed = json.loads(Path(os.environ["LISTED"]).read_text())
            with Path(f"{os.environ['LISTED']}.asked").open("a") as asked_file:
                asked_file.write("once\n")
            if isinstance(listed, list) and listed:
                say_result(request_id, listed[min(pages, len(listed) - 1)])
                pages += 1
            else:
                say_result(request_id, listed)
            say_result(request_id, {"tools": []})
        case "tools/call":
            said = bytes.fromhex(str((asked["params"].get("arguments") or {}).get("hex", "")))
            say(said.replace(b"@ID@", json.dumps(request_id).encode()))
            say_result(request_id, {"content": []})
        case _:
            error = {"code": -32601, "message": "Method not found"}
            say(json.dumps({"jsonrpc": "2.0", "id": request_id, "error": error}).encode())
