"""An MCP server on stdio whose tools each answer in another way that no server should.

The first argument names its list of tools: `sound`, or one of LISTS.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from typing import Any

SCHEMA = {
    "type": "object",
    "properties": {"days": {"type": "integer", "maximum": 7}, "slow": {"pattern": "^(a+)+$"}},
    "required": ["days"],
}


def say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def say_result(request_id: Any, result: str) -> None:
    say(f'{{"jsonrpc": "2.0", "id": {json.dumps(request_id)}, "result": {result}}}')


def text_block(text: str) -> str:
    return f'{{"content": [{{"type": "text", "text": "{text}"}}]}}'


def empty(count: int) -> str:
    return ",".join(["{}"] * count)


def say_without_end(_: Any) -> None:
    while True:
        say('{"jsonrpc": "2.0", "method": "notifications/message", "params": {}}')


def say_to_nobody_first(request_id: Any) -> None:
    say_result(4_711, text_block("no"))
    say_result(request_id, text_block("yes"))


ANSWERS: Mapping[str, Callable[[Any], object]] = {
    "sound": lambda i: say_result(i, text_block("fine")),
    "unknown_id": say_to_nobody_first,
    "half": lambda i: say_result(i, text_block("\\ud800!")),
    "deep": lambda i: say_result(i, f'{{"structuredContent": {"[" * 5_000}{"]" * 5_000}}}'),
    "digits": lambda i: say_result(i, f'{{"content": [], "structuredContent": {"9" * 9_000}}}'),
    "broken": lambda i: say_result(i, '{"content": [}'),
    "parts": lambda i: say_result(i, f'{{"content": [{empty(100_000)}]}}'),
    "values": lambda i: say_result(i, f'{{"content": [{empty(2_000_000)}]}}'),
    "flood": say_without_end,
}
LISTS: Mapping[str, Callable[[Any], object]] = {
    "many": lambda i: say_result(
        i,
        json.dumps(
            {"tools": [{"name": f"t{n}", "inputSchema": {"type": "object"}} for n in range(9_000)]}
        ),
    ),
    "empty": lambda i: say_result(i, f'{{"tools": [{empty(2_000_000)}]}}'),
}

HELLO = {
    "protocolVersion": "2025-03-26",
    "capabilities": {"tools": {}},
    "serverInfo": {"name": "hostile", "version": "1"},
}

for line in sys.stdin:
    asked = json.loads(line)
    request_id = asked.get("id")
    if request_id is None:
        continue
    match asked["method"]:
        case "initialize":
            say_result(request_id, json.dumps(HELLO))
        case "tools/list" if sys.argv[1] in LISTS:
            LISTS[sys.argv[1]](request_id)
        case "tools/list":
            tools = [{"name": name, "inputSchema": SCHEMA} for name in ANSWERS]
            say_result(request_id, json.dumps({"tools": tools}))
        case "tools/call":
            ANSWERS[asked["params"]["name"]](request_id)
        case _:
            error = {"code": -32601, "message": "Method not found"}
            say(json.dumps({"jsonrpc": "2.0", "id": request_id, "error": error}))
