"""Who looks at the monitor, and what they may do there."""

from __future__ import annotations

import hmac
import re
from base64 import b64decode
from collections.abc import Callable, Mapping
from enum import IntEnum
from hashlib import sha256
from typing import Literal
from urllib.parse import urlsplit

from sleipnir.records import dataclass
from sleipnir.scheduler.config.monitor_users import API_PREFIX, MonitorUsers
from sleipnir.worker.monitor.admission.tickets import Tickets

# Of one user: a proxy that adds its header to one that was sent gives two with a comma between.
_NAME = re.compile(r"[!-+\--~]{1,128}")


class Role(IntEnum):
    """What somebody may do; each includes those before it."""

    NONE = 0  # is known, and that is all
    LOCAL = 1  # is on this machine, and has not shown anything
    READ = 2
    ANSWER = 3  # answer questions
    OPERATE = 4  # submit, cancel, retry


@dataclass(frozen=True, slots=True)
class Visitor:
    """Who sent a request."""

    name: str
    role: Role
    via: Literal["nothing", "link", "key", "password", "proxy", "oauth"]
    # What acts have to carry; "" where the browser adds nothing to requests by itself.
    form_token: str = ""


STRANGER = Visitor("somebody", Role.LOCAL, "nothing")


@dataclass(frozen=True, slots=True)
class NamedUsers:
    """Users whom a proxy names in a header; `Proxies` takes it out of all other requests."""

    header: str
    role_of: Callable[[str], Role]
    secret: str  # tokens of forms are made of it

    def visitor(self, headers: Mapping[str, str]) -> Visitor | None:
        """Who is named, if somebody is, and only one."""
        name = headers.get(self.header, "")
        if not _NAME.fullmatch(name):
            return None
        # The browser adds by itself whatever the proxy knows them by.
        token = _derived(self.secret.encode(), f"form {name}")
        return Visitor(name, self.role_of(name), "proxy", token)


@dataclass(frozen=True, slots=True)
class SignedInUsers:
    """Users whom an OAuth provider has named; a signed cookie says so."""

    allows: Callable[[str], bool]
    role_of: Callable[[str], Role]
    secret: str  # tokens of forms are made of it

    def visitor(self, name: str) -> Visitor | None:
        """Who signed in, if they still may."""
        if not self.allows(name):
            return None
        token = _derived(self.secret.encode(), f"form {name}")
        return Visitor(name, self.role_of(name), "oauth", token)


class Access:
    """Knows visitors by the key of the link, by a password, a file of users, or a proxy's word.

    Args:
        key: of the link; whoever has none is a stranger, and may see what a stranger may.
        password: `USER:PASSWORD`; whoever does not know it sees nothing.
        users: the same with a role for each.
        named: whom a proxy names.
        signed_in: whom an OAuth provider names.
    """

    def __init__(
        self,
        *,
        key: str | None = None,
        password: str | None = None,
        users: MonitorUsers | None = None,
        named: NamedUsers | None = None,
        signed_in: SignedInUsers | None = None,
    ) -> None:
        self.key = key
        self._key = None if key is None else key.encode()
        self._password = None if password is None else password.encode()
        self._users = users
        self._named = named
        self._signed_in = signed_in
        self.tickets = Tickets()

    @property
    def wants_password(self) -> bool:
        return self._password is not None or self._users is not None

    @property
    def has_sign_in(self) -> bool:
        """Whether there is a page to sign in."""
        return self._signed_in is not None

    def visitor(
        self, headers: Mapping[str, str], cookie: str | None, signed: str | None = None
    ) -> Visitor | None:
        """Who sent a request; None if nobody we know. May take as long as a password's check.

        Args:
            cookie: that of the link.
            signed: the name in the cookie of who has signed in.
        """
        if self._named is not None and (found := self._named.visitor(headers)):
            return found
        if self._signed_in is not None and signed is not None:
            return self._signed_in.visitor(signed)
        scheme, _, credentials = headers.get("Authorization", "").strip().partition(" ")
        scheme, credentials = scheme.lower(), credentials.strip()
        if self._key is None:
            return self._by_password(scheme, credentials)
        if scheme == "bearer" and _equal(credentials.encode(), self._key):
            return Visitor("operator", Role.OPERATE, "key")
        if cookie is not None and _equal(cookie.encode(), self.cookie.encode()):
            return Visitor("operator", Role.OPERATE, "link", self._derived("form"))
        return STRANGER

    def opens(self, key: str | None, ticket: str | None) -> bool:
        """Whether a link has the right key, or a ticket that is good."""
        if self._key is None:
            return False
        if ticket is not None:
            return self.tickets.redeem(ticket)
        return key is not None and _equal(key.encode(), self._key)

    @property
    def cookie(self) -> str:
        """What the browser keeps of the link: not the key, which would open other doors."""
        return self._derived("cookie")

    def _by_password(self, scheme: str, credentials: str) -> Visitor | None:
        if scheme == "bearer" and credentials.startswith(API_PREFIX):
            name, _, secret = credentials.rpartition(".")
            return self._user(name, secret, "key")
        try:
            given = b64decode(credentials, validate=True)
        except ValueError:
            return None
        if scheme != "basic":
            return None
        name, _, password = given.decode(errors="replace").partition(":")
        if self._password is not None and _equal(given, self._password):
            return Visitor(name, Role.OPERATE, "password")
        return self._user(name, password, "password")

    def _user(self, name: str, password: str, via: Literal["key", "password"]) -> Visitor | None:
        found = None if self._users is None else self._users.find(name, password)
        return None if found is None else Visitor(name, Role[found.role.upper()], via)

    def _derived(self, purpose: str) -> str:
        assert self._key is not None, "there is no link"
        return _derived(self._key, purpose)


def _derived(key: bytes, purpose: str) -> str:
    return hmac.new(key, purpose.encode(), sha256).hexdigest()


def comes_from_elsewhere(headers: Mapping[str, str], host: str) -> bool:
    """Whether a page of another site has sent a request, as far as its browser tells."""
    site = headers.get("Sec-Fetch-Site")
    if site is not None:
        return site != "same-origin"
    origin = headers.get("Origin")
    return origin is not None and urlsplit(origin).netloc.lower() != host.lower()


def comes_from_here(headers: Mapping[str, str], host: str) -> bool:
    """Whether a browser says that a page of ours has sent a request."""
    says = "Sec-Fetch-Site" in headers or "Origin" in headers
    return says and not comes_from_elsewhere(headers, host)


def _equal(given: bytes, expected: bytes) -> bool:
    return hmac.compare_digest(given, expected)
