"""Connections to model servers: proxies and deadlines."""

from __future__ import annotations

import contextvars
import socket
import ssl
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from time import monotonic

import httpx
import pytest

from sleipnir.worker.llm.client import ReplyTooLarge
from sleipnir.worker.llm.provider.network import CANCELLATION
from sleipnir.worker.llm.provider.transport import (
    DEADLINE,
    LIMIT_BYTES,
    STREAMED,
    SharedTransport,
    bounded,
)
from sleipnir.worker.visit.cancellation import Cancellation
from tests.support.certificates import certificate
from tests.support.model_server import DRIPS, HANGS, ModelServer, Reply, says


@pytest.fixture(autouse=True)
def _no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with ModelServer() as server:
        yield server


def post(url: str) -> httpx.Response:
    transport = SharedTransport(verify=False)
    try:
        with httpx.Client(transport=transport) as client:
            return client.post(url, json={})
    finally:
        transport.discard()


def test_the_kernel_looks_whether_servers_are_still_there(server: ModelServer) -> None:
    server.script.add(says("here"))
    transport = SharedTransport(verify=False)

    with httpx.Client(transport=transport) as client:
        response = client.post(f"{server.base_url}/chat/completions", json={})
    connection = response.extensions["network_stream"].get_extra_info("socket")

    assert connection.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
    transport.discard()


def test_requests_go_through_the_proxy_of_the_environment(
    server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", f"127.0.0.1:{server.port}")
    server.script.add(says("by way of the proxy"))

    response = post("http://models.invalid/v1/chat/completions")

    assert response.status_code == 200
    assert server.requests[0].path == "http://models.invalid/v1/chat/completions"


def test_hosts_excepted_from_the_proxy_are_reached_directly(
    server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://proxy.invalid:3128")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    server.script.add(says("directly"))

    response = post(f"{server.base_url}/chat/completions")

    assert response.status_code == 200
    assert server.requests[0].path == "/v1/chat/completions"


@pytest.mark.parametrize("reply", [HANGS, DRIPS], ids=["silence", "an endless body"])
def test_a_deadline_ends_a_request_whatever_the_server_does(
    server: ModelServer, reply: Reply
) -> None:
    server.script.add(reply)
    began = monotonic()
    token = DEADLINE.set(began + 0.2)

    with pytest.raises(httpx.ReadTimeout):
        post(f"{server.base_url}/chat/completions")
    DEADLINE.reset(token)

    assert 0.2 <= monotonic() - began < 5.0


def test_a_wait_for_an_encrypted_answer_ends_when_it_is_called_off(tmp_path: Path) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate(tmp_path))
    cancellation, transport = Cancellation(), SharedTransport(verify=False)

    def ask(port: int) -> None:
        CANCELLATION.set(cancellation)
        transport.handle_request(httpx.Request("GET", f"https://127.0.0.1:{port}/"))

    with (
        ThreadPoolExecutor() as pool,
        socket.create_server(("127.0.0.1", 0)) as listening,
        context.wrap_socket(listening, server_side=True) as server,
    ):
        asked = pool.submit(contextvars.copy_context().run, ask, server.getsockname()[1])
        connection, _ = server.accept()
        with connection:
            connection.recv(1)
            cancellation.set()

            with pytest.raises(httpx.TransportError):
                asked.result(timeout=60)
    transport.discard()


class Body(httpx.SyncByteStream):
    """Comes in these pieces."""

    def __init__(self, *pieces: bytes) -> None:
        self._pieces = pieces

    def __iter__(self) -> Iterator[bytes]:
        yield from self._pieces


def taken(*pieces: bytes, kind: str = "text/event-stream; charset=utf-8") -> bytes:
    """A body as it gets through where a reply may have 10,000 bytes."""
    token = LIMIT_BYTES.set(10_000)
    try:
        headers = {"Content-Type": kind}
        return bounded(httpx.Response(200, headers=headers, stream=Body(*pieces))).read()
    finally:
        LIMIT_BYTES.reset(token)


EVENT = b"data: " + b"x" * 994


@pytest.mark.parametrize("end", [b"\n\n", b"\r\n\r\n", b"\r\r"])
def test_a_stream_of_events_may_be_longer_than_what_it_says(end: bytes) -> None:
    split = [piece for event in [EVENT] * 70 for piece in (event, end[:1], end[1:])]

    assert taken(*[EVENT + end] * 70) == taken(*split) == (EVENT + b"\n\n") * 70


@pytest.mark.parametrize(
    ("kind", "pieces"),
    [
        ("application/json", [b"x" * 1_000] * 11),
        ("text/event-stream", [EVENT + b"\n\n"] * 81),
        ("text/event-stream", [b"data: x\n"] * 1_001),
        ("text/event-stream", [b"x\r" + b"x\r\n"] * 501),
        ("Text/Event-Stream", [b"x\r"] * 1_001),
        ("text/event-stream", [b"data: " + b"x" * 5_000, b"x" * 5_000]),
        ("text/event-stream", [EVENT + b"\n\n", b"x" * 10_001]),
    ],
)
def test_a_body_ends_at_its_limit_and_so_does_each_event(kind: str, pieces: list[bytes]) -> None:
    with pytest.raises(ReplyTooLarge):
        taken(*pieces, kind=kind)


@pytest.mark.parametrize("lines", [b"x\n", b"x\r"])
def test_a_reply_that_is_read_as_events_is_held_to_their_limit(lines: bytes) -> None:
    token = STREAMED.set(True)
    try:
        with pytest.raises(ReplyTooLarge):
            taken(*[lines] * 1_001, kind="application/json")
    finally:
        STREAMED.reset(token)
