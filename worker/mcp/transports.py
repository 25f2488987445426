"""The ways to reach a server: its program, streamable HTTP, or the older HTTP with SSE."""

from __future__ import annotations

import asyncio
import logging
import os
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from contextvars import ContextVar
from dataclasses import field
from functools import partial
from time import monotonic
from typing import Any

import anyio
import httpx2
import mcp.client.stdio
from anyio.streams.text import TextReceiveStream
from mcp.client.sse import sse_client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client

from sleipnir.graphs.mcp.config import McpServer
from sleipnir.records import dataclass
from sleipnir.scheduler.config.secrets import hidden
from sleipnir.worker.mcp import messages
from sleipnir.worker.mcp.bodies import bounded
from sleipnir.worker.mcp.messages import LONGEST_MESSAGE, MOST_UNASKED, UNASKED, UnaskedMessages
from sleipnir.worker.mcp.target import Target
from sleipnir.worker.sandbox import programs
from sleipnir.worker.sandbox.child_process import GRACE_S, base_environment

logger = logging.getLogger("sleipnir.mcp")

# Failures are reported to the caller; the SDK would log them again, with a traceback.
logging.getLogger("mcp").setLevel(logging.CRITICAL)
# It logs URLs, which may contain a secret.
logging.getLogger("httpx2").setLevel(logging.WARNING)

_CONNECT_LIMIT_S = 30.0
_LINES_KEPT = 3
_LONGEST_LINE = 2_000
_LINES_A_MINUTE = 100


_TOO_LONG = b"a message of more than %d bytes" % LONGEST_MESSAGE
_TOO_MUCH_UNASKED = b"more than %d messages a minute that nobody asked for" % MOST_UNASKED


@dataclass(slots=True)
class Traces:
    """Evidence of a connection that explains a failure better than its exception."""

    stderr: deque[bytes] = field(default_factory=lambda: deque(maxlen=_LINES_KEPT))
    http_error: str | None = None  # the last error response of an HTTP server

    def last_lines(self) -> list[str]:
        """Return the last lines of its program's stderr, fit to be shown."""
        return list(map(_shown, self.stderr))


@asynccontextmanager
async def connection(
    target: Target, traces: Traces, on_end: Callable[[], None]
) -> AsyncIterator[tuple[Any, Any]]:
    """Open the two streams of messages from and to a server; `on_end` is called if it goes away."""
    server = target.server

    def too_much(what: bytes) -> None:
        traces.stderr.append(what)
        on_end()

    _TOO_LONG_CAME.set(partial(too_much, _TOO_LONG))
    UNASKED.set(UnaskedMessages(partial(too_much, _TOO_MUCH_UNASKED)))
    opened: AbstractAsyncContextManager[tuple[Any, Any]]
    match server.type:
        case "stdio":
            opened = _program(target, traces)
        case "http":
            opened = _streamable_http(server, traces)
        case "sse":
            opened = _events(server, traces)
    async with opened as (received, sent):
        yield _Watched(received, on_end), sent


@asynccontextmanager
async def _program(target: Target, traces: Traces) -> AsyncIterator[tuple[Any, Any]]:
    program = programs.begin()
    try:
        async with _streams_of(target, traces, program.mark) as streams:
            yield streams
    finally:
        await asyncio.shield(asyncio.to_thread(programs.over, program, GRACE_S))


@asynccontextmanager
async def _streams_of(target: Target, traces: Traces, mark: str) -> AsyncIterator[tuple[Any, Any]]:
    server, cwd = target.server, target.cwd
    assert cwd is not None, "programs run somewhere"
    cwd.mkdir(parents=True, exist_ok=True)
    parameters = StdioServerParameters(
        command=server.command,
        args=list(server.args),
        env={
            **base_environment(target.environment_names),
            **server.env,
            programs.MARK: mark,
        },
        cwd=cwd,
        encoding_error_handler="replace",
    )
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb") as stderr, os.fdopen(writing, "w") as errlog:
        log = await asyncio.get_running_loop().connect_read_pipe(
            lambda: StderrLog(server.name, traces.stderr), stderr
        )
        try:
            async with stdio_client(parameters, errlog=errlog) as streams:
                errlog.close()  # now only the program holds the pipe, so reading ends with it
                yield streams
        finally:
            log[0].close()


# Called if a message was too long; for the server whose program the current task reads from.
_TOO_LONG_CAME: ContextVar[Callable[[], None]] = ContextVar("_TOO_LONG_CAME")


class _Lines(TextReceiveStream):
    """What a program writes, up to a line that is too long for a message."""

    _line = 0  # characters since the last line end

    async def receive(self) -> str:
        text = await super().receive()
        ended = text.rfind("\n") + 1
        self._line = len(text) - ended if ended else self._line + len(text)
        if self._line > LONGEST_MESSAGE:
            _TOO_LONG_CAME.get()()
            raise anyio.EndOfStream
        return text


messages.install()
# The SDK has no parameter for this.
mcp.client.stdio.TextReceiveStream = _Lines  # type: ignore[attr-defined]


class StderrLog(asyncio.Protocol):
    """Forwards a program's stderr to the worker's log, line by line.

    If the program writes more than `_LINES_A_MINUTE`, only the number of further lines is logged.
    """

    def __init__(
        self, server: str, kept: deque[bytes], clock: Callable[[], float] = monotonic
    ) -> None:
        self._server = server
        self._kept = kept
        self._clock = clock
        self._rest = b""
        self._minute_ends_at = clock() + 60
        self._said = 0
        self._left_out = 0

    def data_received(self, data: bytes) -> None:
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            self._say(line)
        if len(self._rest) > _LONGEST_LINE:
            self._say(self._rest)
            self._rest = b""

    def connection_lost(self, exc: Exception | None) -> None:
        self._say(self._rest)
        self._tell_of_left_out()

    def _say(self, line: bytes) -> None:
        line = line[:_LONGEST_LINE].strip()
        if not line:
            return
        self._kept.append(line)
        if self._clock() >= self._minute_ends_at:
            self._tell_of_left_out()
            self._minute_ends_at = self._clock() + 60
            self._said = 0
        if self._said == _LINES_A_MINUTE:
            self._left_out += 1
            return
        self._said += 1
        logger.info("%s: %s", self._server, _shown(line))

    def _tell_of_left_out(self) -> None:
        if self._left_out:
            logger.info("%s: … and %d more lines", self._server, self._left_out)
        self._left_out = 0


def _shown(line: bytes) -> str:
    text = hidden(line.decode(errors="replace"))
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


@asynccontextmanager
async def _streamable_http(server: McpServer, traces: Traces) -> AsyncIterator[tuple[Any, Any]]:
    async with (
        _http_client(dict(server.headers), traces) as client,
        streamable_http_client(server.url, http_client=client) as streams,
    ):
        yield streams


def _events(server: McpServer, traces: Traces) -> AbstractAsyncContextManager[tuple[Any, Any]]:
    def client(
        headers: dict[str, str] | None = None,
        timeout: httpx2.Timeout | None = None,
        auth: httpx2.Auth | None = None,
    ) -> httpx2.AsyncClient:
        return _http_client(headers, traces)

    return sse_client(server.url, headers=dict(server.headers), httpx_client_factory=client)


def _http_client(headers: dict[str, str] | None, traces: Traces) -> httpx2.AsyncClient:
    async def note(response: httpx2.Response) -> None:
        if response.status_code >= 400:
            traces.http_error = f"HTTP {response.status_code} {response.reason_phrase}"
        bounded(response)

    # The caller decides how long an answer may take.
    timeout = httpx2.Timeout(_CONNECT_LIMIT_S, read=None)
    headers = {**(headers or {}), "Accept-Encoding": "identity"}
    return httpx2.AsyncClient(headers=headers, timeout=timeout, event_hooks={"response": [note]})


class _Watched:
    """A stream of messages that reports when it ends."""

    def __init__(self, stream: Any, on_end: Callable[[], None]) -> None:
        self._stream = stream
        self._on_end = on_end

    @property
    def last_context(self) -> Any:
        return getattr(self._stream, "last_context", None)

    async def receive(self) -> Any:
        return await self._stream.receive()

    async def aclose(self) -> None:
        await self._stream.aclose()

    def __aiter__(self) -> _Watched:
        return self

    async def __anext__(self) -> Any:
        try:
            return await self._stream.__anext__()
        except StopAsyncIteration:
            self._on_end()
            raise

    async def __aenter__(self) -> _Watched:
        await self._stream.__aenter__()
        return self

    async def __aexit__(self, *raised: Any) -> None:
        await self._stream.__aexit__(*raised)
