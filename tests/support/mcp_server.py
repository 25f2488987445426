"""A small MCP server for tests, over any transport.

    python -m tests.support.mcp_server [stdio | http | sse] [--port-file FILE] [--token TOKEN]

`http` and `sse` serve on a free port, which they write to FILE; with a token they require it as
`Authorization: Bearer TOKEN`.
"""

from __future__ import annotations

import argparse
import os
import socket
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import uvicorn
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError

server = MCPServer("tested", log_level="CRITICAL")


@server.tool()
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@server.tool()
def where() -> str:
    """The server's working directory."""
    return str(Path.cwd())


@server.tool()
def process() -> int:
    """The server's process id."""
    return os.getpid()


@server.tool()
def variable(name: str) -> str | None:
    """A variable of the server's environment."""
    return os.environ.get(name)


@server.tool()
def refuse() -> str:
    """Report an error."""
    raise ToolError("not today")


@server.tool()
def crash() -> str:
    """End the server without a word."""
    sys.stderr.write("going down\n")
    sys.stderr.flush()
    os._exit(3)


@server.tool()
def flood(length: int) -> str:
    """Say a lot."""
    return "x" * length


@server.tool()
def touch(file: str) -> str:
    """Make a file."""
    Path(file).touch()
    return "made"


@server.tool()
async def wait(file: str) -> str:
    """Wait until a file is there."""
    while not Path(file).exists():
        await anyio.sleep(0.02)
    return "done"


@server.tool()
async def grow(context: Context[Any, Any]) -> str:
    """Get one more tool, and tell the client."""

    def grown() -> str:
        """Another tool."""
        return "grown"

    server.add_tool(grown)
    await context.session.send_tool_list_changed()  # notifies older clients
    await context.notify_tools_changed()
    return "grew"


def serve(transport: str, port_file: Path, token: str | None) -> None:
    """Serve HTTP until killed."""
    app: Any = server.streamable_http_app() if transport == "http" else server.sse_app()
    listening = socket.create_server(("127.0.0.1", 0))
    written = port_file.with_suffix(".new")
    written.write_text(str(listening.getsockname()[1]))
    written.rename(port_file)
    if token is not None:
        app = _guarded(app, f"Bearer {token}".encode())
    uvicorn.Server(uvicorn.Config(app, log_level="warning")).run(sockets=[listening])


def _guarded(app: Any, wanted: bytes) -> Callable[..., Awaitable[None]]:
    async def guard(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http" or dict(scope["headers"]).get(b"authorization") == wanted:
            await app(scope, receive, send)
            return
        await send({"type": "http.response.start", "status": 401, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    return guard


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("transport", nargs="?", default="stdio")
    parser.add_argument("--port-file", type=Path)
    parser.add_argument("--token")
    given = parser.parse_args()
    if given.transport == "stdio":
        server.run()
    else:
        serve(given.transport, given.port_file, given.token)
