"""Bodies of servers' HTTP responses: decompressed here, and limited in size."""

from __future__ import annotations

import zlib
from collections.abc import AsyncIterator, Callable
from time import monotonic

import httpx2

from sleipnir.worker.mcp.messages import LONGEST_MESSAGE

# For a stream of events, which may last as long as its connection.
MOST_A_MINUTE_BYTES = 64 * 1024 * 1024
# A compressed body is decompressed this much at a time: a few bytes may expand to a gigabyte.
_PIECE_BYTES = 64 * 1024


class BodyRefused(httpx2.StreamError):
    """A body was abandoned while it was arriving: too large, or of an unsupported encoding."""


def bounded(response: httpx2.Response) -> None:
    """Limit the size of a response's body, which has not been read yet."""
    encoding = response.headers.pop("Content-Encoding", "identity").strip().lower()
    kind = response.headers.get("Content-Type", "").lower()
    stream = response.stream
    assert isinstance(stream, httpx2.AsyncByteStream)
    response.stream = _Bounded(stream, encoding, kind.startswith("text/event-stream"))


class _Bounded(httpx2.AsyncByteStream):
    """A body limited in decompressed size: in all, or per minute for a stream of events."""

    def __init__(
        self,
        stream: httpx2.AsyncByteStream,
        encoding: str,
        is_events: bool,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._stream = stream
        self._encoding = encoding
        self._is_events = is_events
        self._clock = clock

    async def __aiter__(self) -> AsyncIterator[bytes]:
        most = MOST_A_MINUTE_BYTES if self._is_events else LONGEST_MESSAGE
        taken, since = 0, self._clock()
        async for piece in self._unpacked():
            if self._is_events and self._clock() >= since + 60:
                taken, since = 0, self._clock()
            taken += len(piece)
            if taken > most:
                raise BodyRefused(f"the answer is larger than {most} bytes")
            yield piece

    async def aclose(self) -> None:
        await self._stream.aclose()

    async def _unpacked(self) -> AsyncIterator[bytes]:
        if self._encoding in ("identity", ""):
            async for piece in self._stream:
                yield piece
            return
        if self._encoding not in ("gzip", "x-gzip", "deflate"):
            raise BodyRefused(f"the answer has the unsupported encoding '{self._encoding}'")
        unpacking = zlib.decompressobj(zlib.MAX_WBITS | 32)  # gzip or zlib, by its header
        async for packed in self._stream:
            while packed:
                try:
                    yield unpacking.decompress(packed, _PIECE_BYTES)
                except zlib.error as error:
                    raise BodyRefused(f"the answer cannot be unpacked: {error}") from error
                packed = unpacking.unconsumed_tail
