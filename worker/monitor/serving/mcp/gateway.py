"""Carries requests from Tornado's server to the library's, which is an ASGI application."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

from sleipnir.worker.monitor.serving.engine import ServedEngine
from sleipnir.worker.monitor.serving.mcp.callers import CALLER, ToolCaller
from sleipnir.worker.monitor.serving.mcp.server import AgentServer, CallContext

Event = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Event]]
Send = Callable[[Event], Awaitable[None]]


class McpGateway:
    """The server on HTTP; each request stands for itself."""

    def __init__(self, engine: ServedEngine) -> None:
        self._manager = StreamableHTTPSessionManager(
            AgentServer(engine, _caller_of).server(),
            stateless=True,
            max_request_body_size=engine.client.store.settings.value_limit_bytes,
        )
        self._running: asyncio.Task[None] | None = None
        self._is_up = asyncio.Event()
        self._is_over = asyncio.Event()

    async def start(self) -> None:
        """Start what requests need; may be called again."""
        if self._running is None:
            self._running = asyncio.create_task(self._run())
        await self._is_up.wait()

    async def _run(self) -> None:
        # In a task of its own: what is entered has to be left there.
        async with self._manager.run():
            self._is_up.set()
            await self._is_over.wait()

    async def close(self) -> None:
        """End all requests."""
        self._is_over.set()
        if self._running is not None:
            await self._running

    async def serve(self, scope: Event, receive: Receive, send: Send) -> None:
        """Serve one request, as an ASGI application does."""
        await self._manager.handle_request(scope, receive, send)


def _caller_of(ctx: CallContext) -> ToolCaller:
    assert ctx.request is not None, "every request comes by HTTP"
    caller: ToolCaller = ctx.request.scope[CALLER]
    return caller
