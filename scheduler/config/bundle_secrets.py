"""The secrets that an agent's own files hold: of its `.env` files, and of its MCP servers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from sleipnir.graphs.env_file import ENV_FILE, read_env_file
from sleipnir.lazy import lazy_imports
from sleipnir.scheduler.config.masking import secrets_among

with lazy_imports():
    from sleipnir.graphs.mcp import reading as mcp_reading

if TYPE_CHECKING:
    from sleipnir.graphs.mcp.config import McpServer

# Other headers say what is sent or wanted, not who asks.
_OF_HEADERS = ("authorization", "cookie", "key", "token", "secret", "password")


def bundle_secrets(root: Path, directory: Path) -> tuple[str, ...]:
    """Return the secrets in an unpacked bundle; `{{NAME}}`s are resolved and masked elsewhere.

    Args:
        root: laid out as a configuration directory.
        directory: the agent's own, below it.
    """
    found: list[str] = []
    for file in (directory / ENV_FILE, root / "functions" / "tools" / ENV_FILE):
        with suppress(OSError):  # then no program is started with it
            found += secrets_among(read_env_file(file))
    if (root / "mcp.json").exists() or (root / "functions" / "mcp.json").exists():
        for server in mcp_reading.read_mcp_config(root)[0].servers.values():
            found += _of_server(server)
    return tuple(dict.fromkeys(found))


def _of_server(server: McpServer) -> Iterator[str]:
    yield from secrets_among(server.env)
    for name, value in server.headers.items():
        if name.lower().endswith(_OF_HEADERS):
            yield value
            yield value.rpartition(" ")[2]  # without `Bearer`
