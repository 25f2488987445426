"""Connections to model servers: one pool for all calls, each held to its deadline and size."""

from __future__ import annotations

import logging
import os
import socket
import ssl
import zlib
from collections.abc import Iterator
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

# Instant of the `monotonic` clock at which the calling thread's request has to be over.
DEADLINE: ContextVar[float | None] = ContextVar("DEADLINE", default=None)

# Most bytes of a reply to the calling thread's request.
LIMIT_BYTES: ContextVar[int] = ContextVar("LIMIT_BYTES", default=REPLY_LIMIT_BYTES)

# Closes the replies to the calling thread's requests. Whoever stops reading in the middle leaves
# that to the garbage collector, and it may run while the same thread holds the lock of the pool,
# which closing wants: neither this thread nor any other would ever ask a model again.
REPLIES: ContextVar[ExitStack | None] = ContextVar("REPLIES", default=None)

# Whether its reply is read as a stream of events, whatever it says of itself.
STREAMED: ContextVar[bool] = ContextVar("STREAMED", default=False)

# How long such a stream may be silent once it has begun.
LONGEST_STALL_S: ContextVar[float] = ContextVar("LONGEST_STALL_S", default=STALL_S)

# A line for each HTTP request.
logging.getLogger("httpx").setLevel(logging.WARNING)

# A streamed reply comes a word at a time, and each word in an object of its own. What is in them
# is counted by whoever puts them together.
_FRAMING = 8

# An event of a stream has a line or three.
_EVENT_LINES = 1_000
_EVENT_END = b"\n\n"

# A compressed body is unpacked this much at a time: a few bytes may stand for a gigabyte.
_PIECE_BYTES = 64 * 1024

# A call without any limit ends after this long: a lost connection must not hold a thread forever.
LONGEST_CALL_S = 600.0

# An unreachable host is noticed long before a slow answer would be given up.
CONNECT_LIMIT_S = 10.0

# Hundreds of nodes may wait for models at once; what runs is bounded by the worker's threads.
# Idle connections are kept long enough for a node's next call.
LIMITS = httpx.Limits(max_connections=None, max_keepalive_connections=100, keepalive_expiry=60.0)

# A server that is gone without a word, as when a cable is pulled, is noticed after this long,
# whether its answer is awaited or it is being sent to. A slow one answers the kernel's probes.
_LOST_S = 30
_PROBES_S = {"TCP_KEEPIDLE": 15, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 3}
SOCKET_OPTIONS = [
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    *(
        (socket.IPPROTO_TCP, getattr(socket, name), value)
        for name, value in {**_PROBES_S, "TCP_USER_TIMEOUT": _LOST_S * 1000}.items()
        if hasattr(socket, name)  # Linux has them all
    ),
]

_making = Lock()


class StreamStalled(httpx.ReadTimeout):
    """A stream has been silent for too long."""

    def __init__(self, stall_s: float, request: httpx.Request) -> None:
        self.stall_s = stall_s
        super().__init__("the stream stalled", request=request)


def shared_transport() -> SharedTransport:
    """The connections of this process, with certificates checked as its environment says."""
    with _making:  # `cache` alone would let two threads make one each, and lose the other's
        return _only_transport()


@cache
def _only_transport() -> SharedTransport:
    return SharedTransport(_verification())


def _verification() -> ssl.SSLContext | bool:
    """Certificates: `SSL_CERT_FILE` and `SSL_CERT_DIR` as httpx has them, `SSL_VERIFY` as litellm.

    The latter is a file of certificates, or false.
    """
    wanted = os.environ.get("SSL_VERIFY", "")
    if wanted.lower() == "false":
        return False
    if wanted and Path(wanted).exists():
        return ssl.create_default_context(cafile=wanted)
    return httpx.create_ssl_context()


class SharedTransport(httpx.BaseTransport):
    """What every client sends through, those of litellm as well.

    httpx bounds each single read, so a server that keeps a line open with blanks could hold a
    call forever, and it ignores the proxy variables for clients with a transport of their own;
    both are dealt with here. It would also take a body of any size.
    """

    def __init__(self, verify: ssl.SSLContext | str | bool) -> None:
        self._direct = _transport(verify)
        self._proxied = {
            scheme: _transport(verify, proxy=_with_scheme(url))
            for scheme, url in getproxies().items()
            if scheme in ("http", "https", "all")
        }

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        response = self._response(request)
        replies = REPLIES.get()
        if replies is not None:
            assert isinstance(response.stream, httpx.SyncByteStream)
            replies.callback(response.stream.close)
        return response

    def _response(self, request: httpx.Request) -> httpx.Response:
        transport = self._transport_for(request.url)
        # Most servers heed this, and then nothing has to be unpacked.
        request.headers["Accept-Encoding"] = "identity"
        ends_at = DEADLINE.get()
        if ends_at is None:
            return bounded(transport.handle_request(request))
        limits = _limits_until(ends_at)
        request.extensions = {**request.extensions, "timeout": limits}
        response = transport.handle_request(request)
        stall_s = LONGEST_STALL_S.get() if STREAMED.get() and response.is_success else None
        # httpcore looks this up once more, when the body is read.
        limits.update(_limits_until(ends_at))
        limits["read"] = min(limits["read"], stall_s or limits["read"])
        response.stream = _TimedStream(response.stream, ends_at, stall_s, request)
        return bounded(response)

    def close(self) -> None:
        """Keeps the connections: clients are closed, and they all share this transport."""

    def discard(self) -> None:
        """Close the connections; nothing can be sent any more."""
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
    # httpx has no parameter for what httpcore takes as one.
    pool: Any = transport._pool
    pool._network_backend = Network(pool._network_backend)
    return transport


def bounded(response: httpx.Response) -> httpx.Response:
    """The same response, whose body is unpacked here and ends at the limit of its size."""
    encoding = response.headers.pop("Content-Encoding", "identity").strip().lower()
    kind = response.headers.get("Content-Type", "").lower()
    limit_bytes = LIMIT_BYTES.get()
    is_streamed = kind.startswith("text/event-stream") or (STREAMED.get() and response.is_success)
    response.stream = _SizedStream(response.stream, limit_bytes, encoding, is_streamed)
    return response


@dataclass(slots=True)
class _OpenEvent:
    """What came of an event of a stream that has not ended yet.

    Clients put it together line by line, each time as a whole, before anybody looks at it.
    """

    size: int = 0
    lines: int = 0
    _tail: bytes = b""  # of what came before: an end may come in two pieces

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
    """Lines of events may end in three ways, of which clients make events in different ways."""
    after_return = False
    for piece in pieces:
        rest = piece[1:] if after_return and piece.startswith(b"\n") else piece
        after_return = piece.endswith(b"\r")
        yield rest.replace(b"\r\n", b"\n").replace(b"\r", b"\n")


class _SizedStream(httpx.SyncByteStream):
    """A response body of so many bytes at most, as it is once unpacked."""

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
        unpacking = zlib.decompressobj(zlib.MAX_WBITS | 32)  # either kind, by its header
        for packed in self._stream:
            while packed:
                try:
                    yield unpacking.decompress(packed, _PIECE_BYTES)
                except zlib.error as error:
                    raise httpx.DecodingError(f"the server's answer: {error}") from error
                packed = unpacking.unconsumed_tail


class _TimedStream(httpx.SyncByteStream):
    """A response body that must have arrived by a deadline, however busily it trickles in."""

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
    # A socket takes zero for "do not block", so what is over gets a little.
    left = max(ends_at - monotonic(), 0.001)
    return {"connect": min(left, CONNECT_LIMIT_S), "read": left, "write": left, "pool": left}


def _with_scheme(proxy: str) -> str:
    return proxy if "://" in proxy else f"http://{proxy}"
