"""Whose word the monitor takes for who asks, and what a name may do."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from tornado.httputil import HTTPHeaders

from sleipnir.scheduler.errors import SettingInvalid
from sleipnir.worker.monitor.access import Role
from sleipnir.worker.monitor.admission.proxies import Proxies
from sleipnir.worker.monitor.admission.roles import RoleRules


def read(proxies: Proxies, sender: str, **headers: str) -> Any:
    """A request as the monitor goes on with it."""
    names = {name.replace("_", "-"): text for name, text in headers.items()}
    request = SimpleNamespace(
        remote_ip=sender, protocol="http", host="own.example", headers=HTTPHeaders(names)
    )
    proxies.read(request)
    return request


@pytest.mark.parametrize(
    ("sender", "forwarded", "found"),
    [
        ("10.0.0.5", "192.0.2.1", "192.0.2.1"),
        ("10.0.0.5", "6.6.6.6, 192.0.2.1, 10.1.2.3", "192.0.2.1"),
        ("::ffff:10.0.0.5", "2001:db8::7", "2001:db8::7"),
        ("10.0.0.5", "192.0.2.1, unknown", "10.0.0.5"),
        ("10.0.0.5", "", "10.0.0.5"),
        ("10.0.0.6", "192.0.2.1", "10.0.0.6"),
    ],
)
def test_the_sender_is_the_last_that_a_trusted_proxy_tells_of(
    sender: str, forwarded: str, found: str
) -> None:
    proxies = Proxies(["10.0.0.5", "10.1.0.0/16"])

    assert read(proxies, sender, X_Forwarded_For=forwarded).remote_ip == found


def test_what_others_say_of_themselves_is_taken_out() -> None:
    said = {"X_Forwarded_Proto": "https", "X_Forwarded_Host": "evil.example", "X_User": "root"}
    proxies = Proxies(["10.0.0.5"], "X-User")

    trusted, other = (read(proxies, sender, **said) for sender in ("10.0.0.5", "10.0.0.6"))

    assert (trusted.protocol, trusted.host) == ("https", "evil.example")
    assert trusted.headers["X-User"] == "root"
    assert (other.protocol, other.host, list(other.headers)) == ("http", "own.example", [])
    assert read(proxies, "10.0.0.5", X_Forwarded_Proto="gopher").protocol == "http"


def test_the_highest_role_whose_pattern_fits_the_whole_name_counts() -> None:
    rules = RoleRules({"read": [r".*@example\.org"], "operate": [r"ada@.*", "root"]})

    names = ("ada@example.org", "bob@example.org", "bob@example.org.evil", "toor root", "root")

    assert [rules.role_of(name).name for name in names] == [
        "OPERATE",
        "READ",
        "NONE",
        "NONE",
        "OPERATE",
    ]
    assert rules.role_of("bob@example.org") < Role.ANSWER


def test_settings_that_cannot_be_used_are_named() -> None:
    with pytest.raises(SettingInvalid, match=r"monitor_proxies: 10\.0\.0\.1/8 has host"):
        Proxies(["10.0.0.1/8"])
    with pytest.raises(SettingInvalid, match="monitor_user_header: 'X User' cannot name a header"):
        Proxies([], "X User")
    with pytest.raises(SettingInvalid, match=r"monitor_roles: read: '\(' is not a regular"):
        RoleRules({"read": ["("]})
