"""Requests that no browser sends."""

from __future__ import annotations

import socket

import pytest

from tests.support.site import KEY, ServedSite

OWN = f"Authorization: Bearer {KEY}"
CANCEL = "POST /runs/0123456789abcdef/cancel HTTP/1.1"


def sent(site: ServedSite, *lines: str, body: bytes = b"") -> bytes:
    """What comes back, up to the end of the connection."""
    text = "\r\n".join([*lines, "Connection: close", "", ""]).encode() + body
    with socket.create_connection(("127.0.0.1", site.port), timeout=60) as connection:
        connection.sendall(text)
        found = b""
        try:
            while piece := connection.recv(65536):
                found += piece
        except ConnectionResetError:  # what was sent too much is not read
            pass
    return found


@pytest.mark.parametrize(
    ("status", "lines"),
    [
        pytest.param(400, ["GET /runs HTTP/1.1", "Host: localhost", "Host: evil"], id="two hosts"),
        pytest.param(421, ["GET /runs HTTP/1.1", "Host: evil.example"], id="another host"),
        pytest.param(421, ["GET /runs HTTP/1.0"], id="no host"),
        pytest.param(403, [CANCEL, "Host: localhost", "Origin: null"], id="no origin"),
        pytest.param(403, [CANCEL, "Host: localhost", "Sec-Fetch-Site: none"], id="by hand"),
        pytest.param(
            405,
            [
                "GET /api/v1/runs/0123456789abcdef/cancel HTTP/1.1",
                "Host: localhost",
                "X-HTTP-Method: POST",
            ],
            id="an act by GET",
        ),
        pytest.param(405, ["OPTIONS /runs HTTP/1.1", "Host: localhost"], id="another method"),
        pytest.param(
            400,
            [CANCEL, "Host: localhost", "Content-Length: 4", "Transfer-Encoding: chunked"],
            id="two lengths",
        ),
        pytest.param(400, [CANCEL, "Host: localhost", "Content-Length: -4"], id="a length below 0"),
        pytest.param(
            404, ["GET /assets/0/../../../etc/passwd HTTP/1.1", "Host: localhost"], id="a way out"
        ),
        pytest.param(
            404,
            ["GET /assets/0/%2e%2e%2fserver.py HTTP/1.1", "Host: localhost"],
            id="an escaped way out",
        ),
        pytest.param(400, ["GET /agents/%ff HTTP/1.1", "Host: localhost"], id="no UTF-8"),
    ],
)
def test_what_no_browser_sends_is_refused(status: int, lines: list[str], site: ServedSite) -> None:
    answer = sent(site, *lines, OWN)

    assert answer.startswith(f"HTTP/1.1 {status} ".encode())
    assert b"Traceback" not in answer
    assert b"root:" not in answer


def test_headers_and_pieces_without_end_are_not_taken(site: ServedSite) -> None:
    host = ("Host: localhost", OWN)

    headers = sent(site, "GET /runs HTTP/1.1", *host, f"X: {'a' * 200_000}")
    pieces = sent(
        site,
        "POST /api/v1/limits HTTP/1.1",
        *host,
        "Transfer-Encoding: chunked",
        body=b"200000\r\n" + b"a" * 0x200000 + b"\r\n0\r\n\r\n",
    )

    assert b"200 OK" not in headers + pieces
    assert site.ask("/healthz").status == 200


def test_live_news_take_the_key(site: ServedSite) -> None:
    paths = ("/api/v1/stream?topics=runs", "/api/v1/stream?topics=run:0123456789abcdef")

    assert [site.ask(path, headers={}).status for path in paths] == [401, 401]
