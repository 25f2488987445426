"""The server on standard input and output: one client, this machine's user."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Sequence

from mcp.server.stdio import stdio_server

from sleipnir.graphs.document.finding import printable
from sleipnir.scheduler.client import Client
from sleipnir.scheduler.errors import SettingInvalid
from sleipnir.worker.monitor.serving.agents import ServedAgents
from sleipnir.worker.monitor.serving.engine import ServedEngine
from sleipnir.worker.monitor.serving.mcp.callers import ToolCaller
from sleipnir.worker.monitor.serving.mcp.server import AgentServer


def serve(client: Client, patterns: Sequence[str]) -> None:
    """Serve until the client closes its end.

    Args:
        patterns: of the names of agents.

    Raises:
        SettingInvalid: no agent has such a name.
    """
    for pattern in patterns:
        if not ServedAgents(client.search, [pattern]).directories():
            raise SettingInvalid(
                f"--agent: no agent is named '{printable(pattern)}'; `sleipnir agents` lists them"
            )
    asyncio.run(_serve(client, patterns))


async def _serve(client: Client, patterns: Sequence[str]) -> None:
    settings = client.store.settings
    assert settings.redis_url is not None
    engine = ServedEngine(client, settings.redis_url, patterns)
    caller = ToolCaller(settings.identity, session=secrets.token_hex(16))
    server = AgentServer(engine, lambda _: caller).server()
    try:
        async with stdio_server() as (read, write):
            await server.run(read, write, server.create_initialization_options())
    finally:
        await engine.close()
