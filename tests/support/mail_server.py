"""A mail server on the loopback interface that speaks TLS with a certificate of its own."""

from __future__ import annotations

import contextlib
import socket
import socketserver
from collections.abc import Iterator
from itertools import takewhile
from pathlib import Path
from typing import BinaryIO

from tests.support.certificates import server_context
from tests.support.loopback import Loopback

_REPLIES = {
    "EHLO": "250-here\r\n250-AUTH PLAIN\r\n250 STARTTLS",
    "AUTH": "235 welcome",
    "DATA": "354 go on",
    "QUIT": "221 bye",
}


class MailServer(Loopback):
    """Accepts mail until its `with` block ends, and keeps every line it received."""

    def __init__(self, certificate: Path | None = None) -> None:
        self.lines: list[str] = []
        self.tls = server_context(certificate) if certificate else None
        server = _Server(("127.0.0.1", 0), _Handler)
        super().__init__(server)
        server.owner = self

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    owner: MailServer

    def handle_error(self, request: object, client_address: object) -> None:
        """Print nothing: a client that refuses the connection is part of a test."""


class _Handler(socketserver.BaseRequestHandler):
    server: _Server
    request: socket.socket

    def handle(self) -> None:
        owner = self.server.owner
        with contextlib.ExitStack() as opened:
            stream = opened.enter_context(self.request.makefile("rb"))
            self._say("220 here")
            while raw := stream.readline():
                owner.lines.append(raw.decode().rstrip())
                verb = owner.lines[-1].partition(" ")[0].upper()
                if verb == "STARTTLS":
                    if owner.tls is None:
                        self._say("454 no")
                        continue
                    self._say("220 go on")
                    wrapped = owner.tls.wrap_socket(self.request, server_side=True)
                    self.request = opened.enter_context(wrapped)
                    stream = opened.enter_context(self.request.makefile("rb"))
                    continue
                self._say(_REPLIES.get(verb, "250 ok"))
                if verb == "DATA":
                    owner.lines += takewhile(lambda text: text != ".", _texts(stream))
                    self._say("250 taken")

    def _say(self, text: str) -> None:
        self.request.sendall(text.encode() + b"\r\n")


def _texts(stream: BinaryIO) -> Iterator[str]:
    return (line.decode().rstrip() for line in stream)
