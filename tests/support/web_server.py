"""A web server on the loopback interface with the pages that a test provides."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Mapping
from dataclasses import field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from sleipnir.records import dataclass
from tests.support.certificates import server_context
from tests.support.loopback import Loopback

# Interval between the bytes of a dripping page.
DRIP_INTERVAL_S = 0.02


@dataclass(frozen=True, slots=True)
class Page:
    """The response for a path."""

    body: bytes | str = b""
    content_type: str = "text/html; charset=utf-8"
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    drips: bool = False  # the body never ends, one byte after another


@dataclass(frozen=True, slots=True)
class Visit:
    """A request as received; header names in lower case."""

    method: str
    target: str  # path with query
    headers: Mapping[str, str]
    body: bytes


def redirect(to: str) -> Page:
    """Return a page that redirects."""
    return Page(status=302, headers={"Location": to})


class WebServer(Loopback):
    """Serves pages until its `with` block ends, and keeps every request received."""

    def __init__(self, pages: Mapping[str, Page], certificate: Path | None = None) -> None:
        self.pages = dict(pages)
        self.visits: list[Visit] = []
        self.tunnel_to: tuple[str, int] | None = None  # where a proxy's CONNECT really leads
        server = _Server(("127.0.0.1", 0), _Handler)
        super().__init__(server)
        server.owner = self
        self._scheme = "https" if certificate else "http"
        if certificate:
            context = server_context(certificate)
            server.socket = context.wrap_socket(server.socket, server_side=True)

    def url(self, path: str = "", host: str = "127.0.0.1") -> str:
        return f"{self._scheme}://{host}:{self.port}{path}"


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 1024  # by default 5: many clients at once would time out
    owner: WebServer

    def handle_error(self, request: object, client_address: object) -> None:
        """Print nothing: a client that disconnects is part of many tests."""


class _Handler(BaseHTTPRequestHandler):
    server: _Server

    def log_message(self, *_: object) -> None:
        """Print nothing: tests read `visits`."""

    def do_GET(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        headers = {name.lower(): value for name, value in self.headers.items()}
        owner = self.server.owner
        owner.visits.append(Visit(self.command, self.path, headers, body))
        self._send(owner.pages.get(self.path.partition("?")[0], Page("not found", status=404)))

    do_POST = do_GET
    do_HEAD = do_GET

    def do_CONNECT(self) -> None:
        owner = self.server.owner
        headers = {name.lower(): value for name, value in self.headers.items()}
        owner.visits.append(Visit(self.command, self.path, headers, b""))
        assert owner.tunnel_to is not None
        with socket.create_connection(owner.tunnel_to) as other:
            self.send_response(200)
            self.end_headers()
            back = threading.Thread(target=_pass_on, args=(other, self.connection))
            back.start()
            _pass_on(self.connection, other)
            back.join()

    def _send(self, page: Page) -> None:
        self.send_response(page.status)
        self.send_header("Content-Type", page.content_type)
        for name, value in page.headers.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command == "HEAD":
            return
        self.wfile.write(page.body.encode() if isinstance(page.body, str) else page.body)
        while page.drips and not self.server.owner.stopping.wait(DRIP_INTERVAL_S):
            self.wfile.write(b".")
            self.wfile.flush()


def _pass_on(source: socket.socket, target: socket.socket) -> None:
    """Forward bytes until either side closes."""
    with contextlib.suppress(OSError):
        while chunk := source.recv(65536):
            target.sendall(chunk)
        target.shutdown(socket.SHUT_WR)
