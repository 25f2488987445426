"""MCP servers whose answers are made to cost much, or to be waited for in vain."""

from __future__ import annotations

import gzip
import json
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from sleipnir.graphs.mcp.config import McpConfig, McpServer
from sleipnir.scheduler.config.secrets import Secrets
from sleipnir.worker.mcp.failures import McpFailed, McpUnavailable
from sleipnir.worker.mcp.functions import McpServers
from sleipnir.worker.mcp.pool import McpLimits, McpPool
from tests.support.loopback import Loopback

# Nothing here may be waited for.
LIMIT_S = 300.0
PROGRAM = Path(__file__).parents[1] / "support" / "hostile_mcp_server.py"


@pytest.fixture
def pool() -> Iterator[McpPool]:
    pool = McpPool(McpLimits(start_s=LIMIT_S))
    yield pool
    pool.close()


def hostile(listed: str = "sound") -> McpServer:
    return McpServer("hostile", "stdio", command=sys.executable, args=(str(PROGRAM), listed))


def refusal(pool: McpPool, server: McpServer, tool: str, workdir: Path) -> str:
    with pytest.raises(McpFailed) as caught:
        pool.call(server, workdir, tool, {}, LIMIT_S)
    return str(caught.value)


@pytest.mark.timeout(240)
@pytest.mark.parametrize(
    ("tool", "reason"),
    [
        ("deep", "the answer cannot be read: maximum recursion depth"),
        ("digits", "the answer cannot be read: Exceeds the limit (4300 digits)"),
        ("broken", "the answer cannot be read: Expecting value"),
        ("parts", "the answer has more than 20,000 parts"),
        ("values", "the answer has more than 500,000 values"),
        ("flood", "more than 5000 messages a minute that nobody asked for"),
    ],
)
def test_an_answer_that_cannot_be_taken_fails_its_call_at_once(
    pool: McpPool, tmp_path: Path, tool: str, reason: str
) -> None:
    assert reason in refusal(pool, hostile(), tool, tmp_path)

    assert pool.call(hostile(), tmp_path, "sound", {}, LIMIT_S)["isError"] is False


def test_what_can_be_understood_is(pool: McpPool, tmp_path: Path) -> None:
    half = pool.call(hostile(), tmp_path, "half", {}, LIMIT_S)
    unknown = pool.call(hostile(), tmp_path, "unknown_id", {}, LIMIT_S)

    assert half["content"] == [{"type": "text", "text": "?!"}]
    assert unknown["content"] == [{"type": "text", "text": "yes"}]


@pytest.mark.timeout(240)
@pytest.mark.parametrize(
    ("listed", "reason"),
    [
        ("many", "it lists more than 5,000 tools"),
        ("empty", "the answer has more than 500,000 values"),
    ],
)
def test_a_list_without_measure_makes_its_server_unavailable(
    pool: McpPool, tmp_path: Path, listed: str, reason: str
) -> None:
    with pytest.raises(McpUnavailable, match=reason):
        pool.tools(hostile(listed), tmp_path, LIMIT_S)


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ({}, "$: 'days' is a required property"),
        ({"days": "$(reboot)"}, "$.days: '$(reboot)' is not of type 'integer'"),
        ({"days": 8}, "$.days: 8 is greater than the maximum of 7"),
        (
            {"days": 1, "slow": "a" * 50 + "!"},
            "could not be checked within 1 s: pattern '^(a+)+$' at $.properties.slow",
        ),
    ],
)
def test_arguments_that_a_tool_does_not_declare_never_reach_it(
    tmp_path: Path, arguments: dict[str, Any], reason: str
) -> None:
    pool = McpPool(McpLimits(start_s=LIMIT_S, check_s=1.0))
    config = McpConfig({"hostile": hostile()})
    servers = McpServers(
        config, ["hostile"], pool, Secrets(tmp_path / "none.yaml"), tmp_path, LIMIT_S
    )
    try:
        (function,) = servers.resolve((), ["flood"]).functions
        answer = function.call(arguments)
    finally:
        pool.close()

    assert answer["tool_call_error"].startswith("invocation failed: the arguments ")
    assert reason in answer["tool_call_error"]


_RESULTS: dict[str, Any] = {
    "initialize": {
        "protocolVersion": "2025-03-26",
        "capabilities": {"tools": {}},
        "serverInfo": {"name": "web", "version": "1"},
    },
    "tools/list": {"tools": [{"name": "t", "inputSchema": {"type": "object"}}]},
}
_UNKNOWN = {"error": {"code": -32601, "message": "Method not found"}}


class _Handler(BaseHTTPRequestHandler):
    """Answers calls with `answer`: packed, or again and again."""

    protocol_version = "HTTP/1.1"
    answer = b""
    encoding: str | None = None

    def log_message(self, *_: object) -> None:
        """Silent."""

    def do_GET(self) -> None:
        self._send(405)

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        method = asked["method"]
        if "id" not in asked:
            self._send(202)
        elif method == "tools/call":
            self._call()
        else:
            said = {"result": _RESULTS[method]} if method in _RESULTS else _UNKNOWN
            self._send(200, json.dumps({"jsonrpc": "2.0", "id": asked["id"], **said}).encode())

    def _send(self, status: int, body: bytes = b"") -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _call(self) -> None:
        self.close_connection = True
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        if self.encoding:
            self.send_header("Content-Encoding", self.encoding)
        self.end_headers()
        with suppress(OSError):  # until it is given up
            self.wfile.write(self.answer)
            while self.encoding is None:
                self.wfile.write(self.answer)


class _Web(Loopback):
    """An MCP server over HTTP."""

    def __init__(self, answer: bytes, encoding: str | None) -> None:
        handler = type("Handler", (_Handler,), {"answer": answer, "encoding": encoding})
        super().__init__(ThreadingHTTPServer(("127.0.0.1", 0), handler))


@pytest.mark.parametrize(
    ("answer", "encoding", "reason"),
    [
        pytest.param(lambda: b" " * 65_536, None, "larger than 8388608 bytes", id="endless"),
        pytest.param(
            lambda: gzip.compress(b" " * 100_000_000, 1),
            "gzip",
            "larger than 8388608 bytes",
            id="packed",
        ),
        pytest.param(lambda: b"zzzz", "gzip", "cannot be unpacked", id="badly packed"),
        pytest.param(lambda: b"zzzz", "br", "unsupported encoding 'br'", id="oddly packed"),
    ],
)
def test_a_body_over_http_is_given_up_at_its_limit(
    pool: McpPool,
    tmp_path: Path,
    answer: Callable[[], bytes],
    encoding: str | None,
    reason: str,
) -> None:
    with _Web(answer(), encoding) as web:
        server = McpServer("web", "http", url=f"http://127.0.0.1:{web.port}/mcp")
        assert reason in refusal(pool, server, "t", tmp_path)
