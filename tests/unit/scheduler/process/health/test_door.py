"""The server of health checks: any client gets its answer, or is dropped."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable

import pytest

from sleipnir.scheduler.process.health.address import parse
from sleipnir.scheduler.process.health.door import _MOST_OPEN, Door, ThreadLoop, as_json


@pytest.fixture(scope="module")
def port() -> int:
    door, loop = Door(("127.0.0.1", 0), {"/livez": lambda: as_json(200, [])}), ThreadLoop()
    door.open(loop)
    loop.start()
    return door.port


def ask(port: int, request: bytes) -> tuple[str, str]:
    """Return the status line and the body."""
    with socket.create_connection(("127.0.0.1", port), 10) as client:
        client.sendall(request)
        answer = b"".join(iter(lambda: client.recv(65536), b"")).decode()
    head, _, body = answer.partition("\r\n\r\n")
    return head.splitlines()[0], body


@pytest.mark.parametrize(
    ("request_line", "status"),
    [
        (b"GET /livez HTTP/1.1", "200 OK"),
        (b"GET /livez?verbose HTTP/1.0", "200 OK"),
        (b"GET /other HTTP/1.1", "404 Not Found"),
        (b"POST /livez HTTP/1.1", "405 Method Not Allowed"),
        (b"\xff\xfe", "405 Method Not Allowed"),
        (b"GET /" + b"a" * 8000, "404 Not Found"),
    ],
)
def test_every_request_gets_an_answer(port: int, request_line: bytes, status: str) -> None:
    line, body = ask(port, request_line + b"\r\n\r\n")

    assert line == f"HTTP/1.1 {status}"
    assert json.loads(body)["ok"] == (status == "200 OK")


def test_clients_that_say_nothing_hold_up_nobody(port: int) -> None:
    silent = [socket.create_connection(("127.0.0.1", port), 10) for _ in range(_MOST_OPEN + 1)]

    assert ask(port, b"GET /livez HTTP/1.1\r\n\r\n")[0] == "HTTP/1.1 200 OK"
    assert silent[0].recv(1) == b""  # the oldest was dropped for the others
    for each in silent:
        each.close()


def test_a_client_that_was_dropped_after_it_had_asked_ends_nothing() -> None:
    watched: dict[socket.socket, Callable[[], None]] = {}
    loop = ThreadLoop()
    loop.watch = watched.__setitem__  # type: ignore[method-assign]
    loop.unwatch = lambda _: None  # type: ignore[method-assign]
    door = Door(("127.0.0.1", 0), {})
    door.open(loop)
    ((listener, accept),) = watched.items()
    clients = []
    for _ in range(_MOST_OPEN + 1):
        clients.append(socket.create_connection(("127.0.0.1", door.port), 10))
        accept()
    assert clients[0].recv(1) == b""
    for client in clients:
        client.close()

    for read in [*watched.values()][1:]:  # as a loop does with all that it found at once
        read()

    listener.close()


def test_an_address_has_a_host_and_a_port() -> None:
    assert parse("127.0.0.1:8081") == ("127.0.0.1", 8081)
    assert parse("[::1]:8081") == ("::1", 8081)
    for text in ("8081", ":8081", "host:", "host:70000", "host:x"):
        with pytest.raises(ValueError, match="not HOST:PORT"):
            parse(text)
