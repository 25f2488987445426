"""A minimal HTTP server for health checks, in the loop of its process or on a thread of its own.

Nothing that a client does holds up the loop: requests are short, their number is bounded, and an
answer that the client does not read is dropped.
"""

from __future__ import annotations

import json
import selectors
import socket
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from time import monotonic
from typing import Protocol

_MOST_OPEN = 64
_LONGEST_REQUEST = 8192
_ANSWER_BYTES = 1024 * 1024
_REASONS = {200: "OK", 404: "Not Found", 405: "Method Not Allowed", 503: "Service Unavailable"}

Answer = tuple[int, str, str]  # status, content type, body
TEXT = "text/plain; version=0.0.4; charset=utf-8"


class Loop(Protocol):
    """What calls back when a socket can be read, or some time has passed."""

    def watch(self, source: socket.socket, on_readable: Callable[[], None]) -> None: ...

    def unwatch(self, source: socket.socket) -> None: ...

    def call_in(self, seconds: float, action: Callable[[], None]) -> None: ...


class Door:
    """Answers `GET` of the paths of `routes` at an address, once `open` is called."""

    def __init__(
        self, address: tuple[str, int], routes: Mapping[str, Callable[[], Answer]]
    ) -> None:
        """Listen.

        Raises:
            OSError: the address cannot be used.
        """
        family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        self._listener = socket.create_server(address, family=family)
        self._listener.setblocking(False)
        self._routes = routes
        self._open: dict[socket.socket, bytearray] = {}

    @property
    def port(self) -> int:
        return int(self._listener.getsockname()[1])

    def open(self, loop: Loop) -> None:
        """Answer from this loop."""
        loop.watch(self._listener, partial(self._accept, loop))

    def _accept(self, loop: Loop) -> None:
        try:
            client, _ = self._listener.accept()
        except OSError:  # it has gone again
            return
        client.setblocking(False)
        client.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _ANSWER_BYTES)
        if len(self._open) == _MOST_OPEN:
            self._close(loop, next(iter(self._open)))
        self._open[client] = bytearray()
        loop.watch(client, partial(self._read, loop, client))

    def _read(self, loop: Loop, client: socket.socket) -> None:
        request = self._open.get(client)
        if request is None:  # dropped for another one, after the loop had found it readable
            return
        try:
            part = client.recv(_LONGEST_REQUEST)
        except BlockingIOError:
            return
        except OSError:
            part = b""
        request += part
        if part and b"\r\n\r\n" not in request and len(request) < _LONGEST_REQUEST:
            return
        if part:
            with suppress(OSError):  # it does not read
                client.send(self._answer(bytes(request)))
        self._close(loop, client)

    def _close(self, loop: Loop, client: socket.socket) -> None:
        del self._open[client]
        loop.unwatch(client)
        client.close()

    def _answer(self, request: bytes) -> bytes:
        method, _, rest = request.partition(b" ")
        path = rest.partition(b" ")[0].partition(b"?")[0].decode("ascii", "replace")
        route = self._routes.get(path)
        if method not in (b"GET", b"HEAD"):
            status, kind, body = as_json(405, ["only GET is answered"])
        elif route is None:
            status, kind, body = as_json(404, [f"there is only {', '.join(self._routes)}"])
        else:
            status, kind, body = route()
        content = body.encode()
        head = (
            f"HTTP/1.1 {status} {_REASONS[status]}\r\nContent-Type: {kind}\r\n"
            f"Content-Length: {len(content)}\r\nConnection: close\r\n\r\n"
        )
        return head.encode() + (b"" if method == b"HEAD" else content)


def as_json(status: int, reasons: list[str]) -> Answer:
    """Return an answer that says whether all is well, and else why not."""
    return status, "application/json", json.dumps({"ok": not reasons, "reasons": reasons}) + "\n"


class ThreadLoop:
    """A loop on a thread of its own, for processes whose main loop is not ours."""

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()
        self._calls: list[tuple[float, Callable[[], None]]] = []

    def watch(self, source: socket.socket, on_readable: Callable[[], None]) -> None:
        self._selector.register(source, selectors.EVENT_READ, on_readable)

    def unwatch(self, source: socket.socket) -> None:
        self._selector.unregister(source)

    def call_in(self, seconds: float, action: Callable[[], None]) -> None:
        self._calls.append((monotonic() + seconds, action))

    def start(self) -> None:
        """Run for the life of this process."""
        threading.Thread(target=self._run, name="health", daemon=True).start()

    def _run(self) -> None:
        while True:
            due = min((instant for instant, _ in self._calls), default=None)
            timeout_s = None if due is None else max(0.0, due - monotonic())
            for key, _ in self._selector.select(timeout_s):
                key.data()
            now = monotonic()
            actions = [action for instant, action in self._calls if instant <= now]
            self._calls = [call for call in self._calls if call[0] > now]
            for action in actions:
                action()
