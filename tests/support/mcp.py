"""MCP servers for tests, and the configuration to reach them."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

from sleipnir.graphs.mcp.config import McpServer
from sleipnir.scheduler.embedded.supervisor import die_with_parent
from tests.support.wait import wait_until

ROOT = Path(__file__).parents[2]
PROGRAM = {
    "command": sys.executable,
    "args": ("-m", "tests.support.mcp_server"),
    "env": {"PYTHONPATH": str(ROOT)},
}


def stdio_server(name: str = "tested", **fields: Any) -> McpServer:
    """Return our test server as a program of the worker."""
    return McpServer(name, "stdio", **{**PROGRAM, **fields})


def plain_server(*arguments: str) -> McpServer:
    """Return a server with the older protocol, written without the SDK."""
    program = str(ROOT / "tests" / "support" / "plain_mcp_server.py")
    return McpServer("plain", "stdio", command=sys.executable, args=(program, *arguments))


def odd_mcp_server(listed: Path, **fields: Any) -> McpServer:
    """Return a server that sends anything; its list of tools is in the file."""
    program = str(ROOT / "tests" / "support" / "odd_mcp_server.py")
    env = {"LISTED": str(listed)}
    return McpServer("odd", "stdio", command=sys.executable, args=(program,), env=env, **fields)


@contextmanager
def remote_server(
    kind: Literal["http", "sse"], directory: Path, *arguments: str
) -> Iterator[McpServer]:
    """Run our test server on the loopback interface during the block."""
    port_file = directory / f"{kind}.port"
    command = [sys.executable, "-m", "tests.support.mcp_server", kind]
    process = subprocess.Popen(
        [*command, "--port-file", str(port_file), *arguments],
        cwd=ROOT,
        stderr=subprocess.DEVNULL,
        preexec_fn=die_with_parent(signal.SIGKILL),
    )
    try:
        wait_until(port_file.exists, f"the {kind} server listens")
        path = {"http": "mcp", "sse": "sse"}[kind]
        yield McpServer("tested", kind, url=f"http://127.0.0.1:{port_file.read_text()}/{path}")
    finally:
        process.kill()
        process.wait()
