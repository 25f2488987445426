"""Where deliveries may go, and what receivers may do to them."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from typing import Any

import pytest

from sleipnir.scheduler.hooks import sending
from sleipnir.scheduler.hooks.sending import post
from tests.support.certificates import PrivateCA
from tests.support.web_server import Page, WebServer, redirect


def test_redirects_are_not_followed() -> None:
    with WebServer({"/in": redirect("/secret"), "/secret": Page("x")}) as server:
        reply = post(server.url("/in"), b"{}", {}, allow_private=True)

    assert (reply.status, reply.problem) == (
        302,
        "the reply is 302, and redirects are not followed",
    )
    assert [visit.target for visit in server.visits] == ["/in"]


def test_private_addresses_are_refused() -> None:
    with WebServer({"/in": Page("x")}) as server:
        reply = post(server.url("/in"), b"{}", {}, allow_private=False)

    assert reply.status is None
    assert "is not a public address" in reply.problem
    assert server.visits == []


def test_the_address_that_was_checked_is_connected_to(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    real = socket.getaddrinfo

    def once(host: str, port: int, *rest: Any, **more: Any) -> Any:
        if host == "rebinds.example":
            asked.append(host)
            return real("127.0.0.1" if len(asked) == 1 else "127.0.0.2", port, *rest, **more)
        return real(host, port, *rest, **more)

    monkeypatch.setattr(socket, "getaddrinfo", once)
    with WebServer({"/in": Page("x")}) as server:
        reply = post(server.url("/in", host="rebinds.example"), b"{}", {}, allow_private=True)

    assert (reply.status, len(asked)) == (200, 1)
    assert server.visits[0].headers["host"] == f"rebinds.example:{server.port}"


def test_a_reply_without_end_counts_by_its_status() -> None:
    with WebServer({"/in": Page(drips=True)}) as server:
        reply = post(server.url("/in"), b"{}", {}, allow_private=True, total_s=0.5)

    assert (reply.status, reply.problem) == (200, "")


def test_of_a_long_refusal_the_beginning_is_kept() -> None:
    with WebServer({"/in": Page("x" * 5_000_000, status=400)}) as server:
        reply = post(server.url("/in"), b"{}", {}, allow_private=True)

    assert reply.status == 400
    assert 1024 <= len(reply.problem) < 1100


@pytest.mark.parametrize(
    ("text", "asked_s"),
    [
        ("120", 120.0),
        ("{in_an_hour}", pytest.approx(3600, abs=600)),
        ("Sat, 01 Jan 2000 00:00:00 GMT", 0.0),
        ("soon", None),
        ("", None),
    ],
)
def test_a_refusal_may_ask_to_wait_for_seconds_or_until_a_date(
    text: str, asked_s: float | None
) -> None:
    in_an_hour = format_datetime(datetime.now(UTC) + timedelta(hours=1), usegmt=True)
    asked = text.format(in_an_hour=in_an_hour)
    refusal = Page("later", status=503, headers={"Retry-After": asked})
    with WebServer({"/in": refusal}) as server:
        reply = post(server.url("/in"), b"{}", {}, allow_private=True)

    assert (reply.status, reply.retry_after_s) == (503, asked_s)


def test_a_receiver_that_hangs_is_given_up() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/in"
        reply = post(url, b"{}", {}, allow_private=True, total_s=0.3)

    assert reply.status is None
    assert "no reply within" in reply.problem


def test_nobody_there_is_said() -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]

    reply = post(f"http://127.0.0.1:{port}/in", b"{}", {}, allow_private=True)

    assert reply.status is None
    assert "refused" in reply.problem.lower()


@pytest.fixture
def secure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[WebServer]:
    """A receiver for whom only a private authority vouches, which the environment names."""
    authority = PrivateCA(tmp_path / "ca")
    certificate, key = authority.issue("receiver", "DNS:hooks.example")
    both = tmp_path / "receiver.pem"
    both.write_text(key.read_text() + certificate.read_text())
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.certificate))
    sending._certificates.cache_clear()
    with WebServer({"/in": Page("x")}, both) as server:
        yield server
    sending._certificates.cache_clear()


@pytest.fixture
def at_home(monkeypatch: pytest.MonkeyPatch) -> None:
    """The receiver's name leads to this machine."""
    real = socket.getaddrinfo

    def found(host: str, *rest: Any, **more: Any) -> Any:
        return real("127.0.0.1" if host == "hooks.example" else host, *rest, **more)

    monkeypatch.setattr(socket, "getaddrinfo", found)


def test_a_receiver_with_a_certificate_of_a_private_authority(
    secure: WebServer, at_home: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = secure.url("/in", host="hooks.example")
    reply = post(url, b"{}", {}, allow_private=True)
    other = post(secure.url("/in"), b"{}", {}, allow_private=True)
    monkeypatch.delenv("SSL_CERT_FILE")
    sending._certificates.cache_clear()
    unknown = post(url, b"{}", {}, allow_private=True)

    assert (reply.status, reply.problem) == (200, "")
    assert "doesn't match" in other.problem or "not valid for" in other.problem
    assert "certificate verify failed" in unknown.problem
    assert len(secure.visits) == 1


def test_what_the_environment_says_of_proxies_is_heeded(
    secure: WebServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    with WebServer({}) as proxy:
        proxy.tunnel_to = ("127.0.0.1", secure.port)
        monkeypatch.setenv("HTTPS_PROXY", proxy.url().replace("//", "//me:se%20cret@"))

        # A name that only the proxy knows: it decides where requests may go.
        reply = post(secure.url("/in", host="hooks.example"), b"{}", {}, allow_private=False)
        monkeypatch.setenv("NO_PROXY", "hooks.example")
        direct = post(secure.url("/in", host="hooks.example"), b"{}", {}, allow_private=False)

    assert (reply.status, direct.status) == (200, None)
    (asked,) = proxy.visits
    assert (asked.method, asked.target) == ("CONNECT", f"hooks.example:{secure.port}")
    assert asked.headers["proxy-authorization"] == "Basic bWU6c2UgY3JldA=="
    assert "proxy-authorization" not in secure.visits[0].headers
