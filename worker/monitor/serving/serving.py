"""What handlers share that serve agents."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sleipnir.lazy import lazy_imports
from sleipnir.scheduler.client import Client
from sleipnir.worker.monitor.problems import Problem, Refused
from sleipnir.worker.monitor.serving.engine import ServedEngine

# Importing what speaks the protocol takes a second, and most monitors do not serve it.
with lazy_imports():
    from sleipnir.worker.monitor.serving.mcp import gateway

# Requests that wait for runs at once; each takes a connection to Redis.
MOST_WAITING = 200
_AGAIN_S = 5


class Serving(ServedEngine):
    """The agents that are served, and the requests that wait for their runs."""

    def __init__(self, client: Client, redis_url: str) -> None:
        self.settings = client.store.settings.serve
        super().__init__(client, redis_url, self.settings.agents)
        self.waiting = 0  # requests
        self._mcp: gateway.McpGateway | None = None

    @contextmanager
    def place(self) -> Iterator[None]:
        """Take the place of a request that waits.

        Raises:
            Refused: all are taken.
        """
        if self.waiting >= MOST_WAITING:
            message = f"{MOST_WAITING} requests already wait for runs here"
            details = {"retry_after_s": _AGAIN_S}
            raise Refused(Problem(429, "rate", message, details=details))
        self.waiting += 1
        try:
            yield
        finally:
            self.waiting -= 1

    async def mcp(self) -> gateway.McpGateway:
        """Return what speaks MCP, started by its first use."""
        if self._mcp is None:
            self._mcp = gateway.McpGateway(self)
        await self._mcp.start()
        return self._mcp

    async def close(self) -> None:
        if self._mcp is not None:
            await self._mcp.close()
        await super().close()
