"""The names that the monitor answers to."""

from __future__ import annotations

import pytest

from sleipnir.worker.monitor.admission.hosts import Hosts


@pytest.mark.parametrize(
    ("host", "answers"),
    [
        ("127.0.0.1:5555", True),
        ("localhost", True),
        ("LOCALHOST.:5555", True),
        ("[::1]:5555", True),
        ("127.1.2.3", True),
        ("evil.example:5555", False),
        ("localhost.evil.example", False),
        ("127.0.0.1.evil.example", False),
        ("192.0.2.1", False),
        ("me@127.0.0.1", False),
        ("", False),
        (None, False),
    ],
)
def test_on_loopback_loopback_names_are_answered(host: str | None, answers: bool) -> None:
    assert Hosts("127.0.0.1").include(host, "127.0.0.1") is answers


@pytest.mark.parametrize(
    ("host", "answers"),
    [
        ("192.0.2.7:5555", True),
        ("192.0.2.8", False),
        ("localhost", False),
        ("monitor.example", False),
    ],
)
def test_elsewhere_the_address_is_answered(host: str, answers: bool) -> None:
    assert Hosts("192.0.2.7").include(host, "192.0.2.7") is answers
    assert Hosts("0.0.0.0").include(host, "192.0.2.7") is answers
    assert Hosts("::").include(host, "::ffff:192.0.2.7") is answers


def test_names_that_were_set_are_answered_instead() -> None:
    hosts = Hosts("0.0.0.0", ("Monitor.example", "2001:db8::7"))

    assert hosts.include("monitor.EXAMPLE:443", "192.0.2.7")
    assert hosts.include("[2001:DB8:0::7]:5555", "192.0.2.7")
    assert not hosts.include("192.0.2.7", "192.0.2.7")
    assert hosts.include("localhost:5555", "127.0.0.1")
    assert Hosts("127.0.0.1", ("monitor.example",)).include("monitor.example", "127.0.0.1")
