"""/mcp: agents as tools of an MCP server, by Streamable HTTP."""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import MutableMapping
from contextlib import suppress
from typing import Any

from tornado.iostream import StreamClosedError

from sleipnir.scheduler.process.telemetry.identity import carried_by
from sleipnir.worker.monitor.handlers.base import MonitorHandler
from sleipnir.worker.monitor.problems import Problem, Refused
from sleipnir.worker.monitor.serving.mcp.callers import CALLER, ToolCaller

SESSION_HEADER = "Mcp-Session-Id"


class McpHandler(MonitorHandler):
    """POST /mcp"""

    takes_values = True
    is_timed = False  # lasts as long as a call
    is_polled = True

    async def prepare(self) -> None:
        self._body: bytes | None = self.request.body
        self._has_disconnected = asyncio.Event()
        await super().prepare()
        if not self.site.serving.settings.mcp:
            raise Refused(Problem(404, "not_found", f"there is nothing at {self.request.path}"))

    async def post(self) -> None:
        if _is_first(self.request.body):
            # Nothing is kept for it: with it, the number of a request says which one that is.
            self.set_header(SESSION_HEADER, secrets.token_hex(16))
        with self.site.serving.place():
            gateway = await self.site.serving.mcp()
            with suppress(StreamClosedError):
                await gateway.serve(self._scope(), self._receive, self._send)

    def on_connection_close(self) -> None:
        if hasattr(self, "_has_disconnected"):
            self._has_disconnected.set()

    def _scope(self) -> MutableMapping[str, Any]:
        headers = self.request.headers
        traceparent, tracestate = carried_by(headers)
        caller = ToolCaller(
            self.user,
            self.request.remote_ip or "",
            session=headers.get(SESSION_HEADER),
            key=headers.get("Idempotency-Key") or None,
            traceparent=traceparent,
            tracestate=tracestate,
        )
        return {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": self.request.method,
            "scheme": self.request.protocol,
            "path": self.request.path,
            "query_string": self.request.query.encode(),
            "headers": [
                (name.lower().encode("latin-1"), value.encode("latin-1"))
                for name, value in headers.get_all()
            ],
            CALLER: caller,
        }

    async def _receive(self) -> MutableMapping[str, Any]:
        if self._body is not None:
            body, self._body = self._body, None
            return {"type": "http.request", "body": body, "more_body": False}
        await self._has_disconnected.wait()
        return {"type": "http.disconnect"}

    async def _send(self, event: MutableMapping[str, Any]) -> None:
        if event["type"] == "http.response.start":
            self.set_status(event["status"])
            for name, value in event.get("headers", ()):
                self.set_header(name.decode("latin-1").title(), value.decode("latin-1"))
            if self._headers.get("Content-Type", "").startswith("text/event-stream"):
                self.set_header("Content-Encoding", "identity")
            return
        self.write(event.get("body", b""))
        if event.get("more_body"):
            await self.flush()
        else:
            self.finish()


def _is_first(body: bytes) -> bool:
    """Return whether a request opens a client's session."""
    try:
        message = json.loads(body)
    except (ValueError, RecursionError):
        return False
    return isinstance(message, dict) and message.get("method") == "initialize"
