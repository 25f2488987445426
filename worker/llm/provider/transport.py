"""Connections to model servers: one pool for all calls, with a deadline and a size limit each."""

from __future__ import annotations

import logging
import os
import socket
import ssl
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from contextvars import ContextVar
from functools import cache
from pathlib import Path
from threading import Lock
from time import monotonic
from typing import Any
from urllib.request import getproxies, proxy_bypass

import httpx

from sleipnir.records import dataclass
from sleipnir.worker.llm.client import REPLY_LIMIT_BYTES, STALL_S, ReplyTooLarge
from sleipnir.worker.llm.provider.network import Network

# When the calling thread's request must be over, on the `monotonic` clock.
DEADLINE: ContextVar[float | None] = ContextVar("DEADLINE", default=None)

# Size limit of the reply to the calling thread's request.
LIMIT_BYTES: ContextVar[int] = ContextVar("LIMIT_BYTES", default=REPLY_LIMIT_BYTES)

# Closes the replies to the calling thread's requests. If a client stopped reading and left that to
# the garbage collector, it might run while the same thread holds the pool's lock, which closing
# needs: no thread could ever call a model again.
REPLIES: ContextVar[ExitStack | None] = ContextVar("REPLIES", default=None)

# Whether the reply is read as a stream of events, whatever its content type.
STREAMED: ContextVar[bool] = ContextVar("STREAMED", default=False)

# Answers the calling thread's requests instead of a server.
INSTEAD: ContextVar[Callable[[httpx.Request], httpx.Response] | None] = ContextVar(
    "INSTEAD", default=None
)

# How long a stream may be silent once it has begun.
LONGEST_STALL_S: ContextVar[float] = ContextVar("LONGEST_STALL_S", default=STALL_S)

# It logs a line for each HTTP request.
logging.getLogger("httpx").setLevel(logging.WARNING)

# A streamed reply arrives a word at a time, each in an object of its own, so its raw size may be
# larger; the text itself is limited where the pieces are assembled.
_FRAMING = 8

# Events usually have between one and three lines.
_EVENT_LINES = 1_000
_EVENT_END = b"\n\n"

# A compressed body is decompressed this much at a time: a few bytes may expand to a gigabyte.
_PIECE_BYTES = 64 * 1024

# Limit of a call that has none: a lost connection must not hold a thread forever.
LONGEST_CALL_S = 600.0

# Connecting to an unreachable host fails long before a slow answer would time out.
CONNECT_LIMIT_S = 10.0

# Hundreds of nodes may wait for models at once; the worker's threads bound what runs. Idle
# connections are kept long enough for a node's next call.
LIMITS = httpx.Limits(max_connections=None, max_keepalive_connections=100, keepalive_expiry=60.0)

# A server that vanished silently, as when a cable is pulled, is noticed after this long, whether
# reading or writing. A slow one still answers the kernel's probes.
_LOST_S = 30
_PROBES_S = {"TCP_KEEPIDLE": 15, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 3}
SOCKET_OPTIONS = [
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    *(
        (socket.IPPROTO_TCP, getattr(socket, name), value)
        for name, value in {**_PROBES_S, "TCP_USER_TIMEOUT": _LOST_S * 1000}.items()
        if hasattr(socket, name)  # on Linux, all of them
    ),
]

_making = Lock()


class StreamStalled(httpx.ReadTimeout):
    """A stream has been silent for too long."""

    def __init__(self, stall_s: float, request: httpx.Request) -> None:
        self.stall_s = stall_s
        super().__init__("the stream stalled", request=request)


def shared_transport() -> SharedTransport:
    """Return this process's connections; certificates are checked as its environment says."""
    with _making:  # with `cache` alone, two threads could each make one, and one would be lost
        return _only_transport()


@cache
def _only_transport() -> SharedTransport:
    return SharedTransport(_verification())


def _verification() -> ssl.SSLContext | bool:
    """Return how to check certificates.

    `SSL_CERT_FILE` and `SSL_CERT_DIR` work as in httpx; `SSL_VERIFY`, a file of certificates or
    false, as in litellm.
    """
    wanted = os.environ.get("SSL_VERIFY", "")
    if wanted.lower() == "false":
        return False
    if wanted and Path(wanted).exists():
        return ssl.create_default_context(cafile=wanted)
    return httpx.create_ssl_context()


class SharedTransport(httpx.BaseTransport):
    """The transport of all clients, litellm's included.

    httpx limits each single read only, so a server that keeps sending blanks could hold a call
    forever. It also ignores the proxy variables for clients with a transport of their own, and
    takes bodies of any size. All three are handled here.
    """

    def __init__(self, verify: ssl.SSLContext | str | bool) -> None:
        self._direct = _transport(verify)
        self._proxied = {
            scheme: _transport(verify, proxy=_with_scheme(url))
            for scheme, url in getproxies().items()
            if scheme in ("http", "https", "all")
        }

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        instead = INSTEAD.get()
        if instead is not None:
            return instead(request)
        response = self._response(request)
        replies = REPLIES.get()
        if replies is not None:
            assert isinstance(response.stream, httpx.SyncByteStream)
            replies.callback(response.stream.close)
        return response

    def _response(self, request: httpx.Request) -> httpx.Response:
        transport = self._transport_for(request.url)
        # Most servers heed this, so that nothing has to be decompressed.
        request.headers["Accept-Encoding"] = "identity"
        ends_at = DEADLINE.get()
        if ends_at is None:
            return bounded(transport.handle_request(request))
        limits = _limits_until(ends_at)
        request.extensions = {**request.extensions, "timeout": limits}
        response = transport.handle_request(request)
        stall_s = LONGEST_STALL_S.get() if STREAMED.get() and response.is_success else None
        # httpcore reads this again when the body is read.
        limits.update(_limits_until(ends_at))
        limits["read"] = min(limits["read"], stall_s or limits["read"])
        response.stream = _TimedStream(response.stream, ends_at, stall_s, request)
        return bounded(response)

    def close(self) -> None:
        """Keep the connections: clients get closed, but all of them share this transport."""

    def discard(self) -> None:
        """Close the connections; nothing can be sent afterwards."""
        for transport in (self._direct, *self._proxied.values()):
            transport.close()

    def _transport_for(self, url: httpx.URL) -> httpx.HTTPTransport:
        proxied = self._proxied.get(url.scheme) or self._proxied.get("all")
        return self._direct if proxied is None or proxy_bypass(url.host) else proxied


def _transport(
    verify: ssl.SSLContext | str | bool, proxy: str | None = None
) -> httpx.HTTPTransport:
    transport = httpx.HTTPTransport(
        verify=verify, limits=LIMITS, socket_options=SOCKET_OPTIONS, proxy=proxy
    )
    # httpx does not expose this parameter of httpcore.
    pool: Any = transport._pool
    pool._network_backend = Network(pool._network_backend)
    return transport


def bounded(response: httpx.Response) -> httpx.Response:
    """Return the response with a body that is decompressed here and limited in size."""
    encoding = response.headers.pop("Content-Encoding", "identity").strip().lower()
    kind = response.headers.get("Content-Type", "").lower()
    limit_bytes = LIMIT_BYTES.get()
    is_streamed = kind.startswith("text/event-stream") or (STREAMED.get() and response.is_success)
    response.stream = _SizedStream(response.stream, limit_bytes, encoding, is_streamed)
    return response


@dataclass(slots=True)
class _OpenEvent:
    """The part of a stream's event that has arrived so far.

    Clients join an event's lines, copying them each time, before anything else looks at it.
    """

    size: int = 0
    lines: int = 0
    _tail: bytes = b""  # end of the previous piece, as an event's end may be split

    def take(self, piece: bytes) -> None:
        seen = self._tail + piece
        end = seen.rfind(_EVENT_END)
        if end >= 0:
            piece = seen[end + len(_EVENT_END) :]
            self.size = self.lines = 0
        self.size += len(piece)
        self.lines += piece.count(b"\n")
        self._tail = seen[-1:]


def _with_one_line_end(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Make line ends uniform, as clients split events differently at each of the three kinds."""
    after_return = False
    for piece in pieces:
        rest = piece[1:] if after_return and piece.startswith(b"\n") else piece
        after_return = piece.endswith(b"\r")
        yield rest.replace(b"\r\n", b"\n").replace(b"\r", b"\n")


class _SizedStream(httpx.SyncByteStream):
    """A response body with a limit on its decompressed size."""

    def __init__(self, stream: object, limit_bytes: int, encoding: str, is_streamed: bool) -> None:
        assert isinstance(stream, httpx.SyncByteStream)
        self._stream = stream
        self._limit_bytes = limit_bytes
        self._encoding = encoding
        self._is_streamed = is_streamed

    def __iter__(self) -> Iterator[bytes]:
        most_bytes = self._limit_bytes * (_FRAMING if self._is_streamed else 1)
        event = _OpenEvent()
        taken = 0
        pieces = self._unpacked()
        for piece in _with_one_line_end(pieces) if self._is_streamed else pieces:
            taken += len(piece)
            if taken > most_bytes:
                raise ReplyTooLarge(self._limit_bytes)
            if self._is_streamed:
                event.take(piece)
                if event.size > self._limit_bytes or event.lines > _EVENT_LINES:
                    raise ReplyTooLarge(self._limit_bytes)
            yield piece

    def close(self) -> None:
        self._stream.close()

    def _unpacked(self) -> Iterator[bytes]:
        if self._encoding in ("identity", ""):
            yield from self._stream
            return
        if self._encoding not in ("gzip", "x-gzip", "deflate"):
            raise httpx.DecodingError(
                f"the server's answer has the unsupported encoding '{self._encoding}'"
            )
        unpacking = zlib.decompressobj(zlib.MAX_WBITS | 32)  # gzip or zlib, by its header
        for packed in self._stream:
            while packed:
                try:
                    yield unpacking.decompress(packed, _PIECE_BYTES)
                except zlib.error as error:
                    raise httpx.DecodingError(f"the server's answer: {error}") from error
                packed = unpacking.unconsumed_tail


class _TimedStream(httpx.SyncByteStream):
    """A response body that must have arrived by a deadline, even if it keeps trickling in."""

    def __init__(
        self, stream: object, ends_at: float, stall_s: float | None, request: httpx.Request
    ) -> None:
        assert isinstance(stream, httpx.SyncByteStream)
        self._stream = stream
        self._ends_at = ends_at
        self._stall_s = stall_s
        self._request = request

    def __iter__(self) -> Iterator[bytes]:
        try:
            for chunk in self._stream:
                if monotonic() >= self._ends_at:
                    raise httpx.ReadTimeout("the answer did not end in time", request=self._request)
                yield chunk
        except httpx.ReadTimeout as error:
            if self._stall_s is None or monotonic() >= self._ends_at:
                raise
            raise StreamStalled(self._stall_s, self._request) from error

    def close(self) -> None:
        self._stream.close()


def _limits_until(ends_at: float) -> dict[str, float]:
    # A socket takes zero as "do not block", so an expired limit becomes a tiny one.
    left = max(ends_at - monotonic(), 0.001)
    return {"connect": min(left, CONNECT_LIMIT_S), "read": left, "write": left, "pool": left}


def _with_scheme(proxy: str) -> str:
    return proxy if "://" in proxy else f"http://{proxy}"
