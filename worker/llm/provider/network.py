"""Network connections to model servers whose reads can be cancelled."""

from __future__ import annotations

import contextlib
import socket
import ssl
from collections.abc import Iterable
from contextvars import ContextVar
from functools import partial
from typing import Any

import httpcore

from sleipnir.worker.visit.cancellation import Cancellation

# Ends what the calling thread waits for on any of its connections.
CANCELLATION: ContextVar[Cancellation | None] = ContextVar("CANCELLATION", default=None)


class Network(httpcore.NetworkBackend):
    """Wraps `inner`; the reads of its streams end when `CANCELLATION` is set."""

    def __init__(self, inner: httpcore.NetworkBackend) -> None:
        self._inner = inner

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.NetworkStream:
        return _Stream(self._inner.connect_tcp(host, port, timeout, local_address, socket_options))


class _Stream(httpcore.NetworkStream):
    def __init__(self, inner: httpcore.NetworkStream) -> None:
        self._inner = inner

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        cancellation = CANCELLATION.get()
        if cancellation is None:
            return self._inner.read(max_bytes, timeout)
        with cancellation.calling(partial(_hang_up, self._inner.get_extra_info("socket"))):
            return self._inner.read(max_bytes, timeout)

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._inner.write(buffer, timeout)

    def close(self) -> None:
        self._inner.close()

    def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,
    ) -> httpcore.NetworkStream:
        return _Stream(self._inner.start_tls(ssl_context, server_hostname, timeout))

    def get_extra_info(self, info: str) -> Any:
        return self._inner.get_extra_info(info)


def _hang_up(connection: socket.socket) -> None:
    """Make a read on another thread end at once, as if the server had hung up."""
    with contextlib.suppress(OSError):  # it has just been closed
        # On the plain socket: shutting down TLS discards state that the reader still needs.
        socket.socket.shutdown(connection, socket.SHUT_RDWR)
