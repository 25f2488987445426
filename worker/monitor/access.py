"""Who uses the monitor, and what they may do there."""

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
from sleipnir.worker.monitor.admission.signed_cookies import SignedCookies
from sleipnir.worker.monitor.admission.tickets import Tickets

# One user only: if a proxy adds its header to one that was sent, the two are joined by a comma.
_NAME = re.compile(r"[!-+\--~]{1,128}")
_MOST_PASSWORD = 1_024  # characters


class Role(IntEnum):
    """What a visitor may do; each role includes those before it."""

    NONE = 0  # known, but nothing more
    LOCAL = 1  # on this machine, without any credentials
    READ = 2
    ANSWER = 3  # answer questions
    OPERATE = 4  # submit, cancel, retry


@dataclass(frozen=True, slots=True)
class Powers:
    """What a role allows, by the names that pages use."""

    read: bool
    answer: bool
    operate: bool

    @classmethod
    def of(cls, role: Role) -> Powers:
        """Return what a role allows."""
        return cls(role >= Role.READ, role >= Role.ANSWER, role >= Role.OPERATE)


@dataclass(frozen=True, slots=True)
class User:
    """The sender of a request."""

    name: str
    role: Role
    via: Literal["nothing", "link", "key", "password", "session", "proxy", "oauth"]
    # Required for acts; "" if the browser does not send credentials by itself.
    form_token: str = ""

    @property
    def may(self) -> Powers:
        return Powers.of(self.role)

    @property
    def can_sign_out(self) -> bool:
        """Whether a cookie says who it is."""
        return self.via in ("link", "session", "oauth")


ANONYMOUS = User("somebody", Role.LOCAL, "nothing")


@dataclass(frozen=True, slots=True)
class NamedUsers:
    """Users named by a proxy in a header, which `Proxies` removes from all other requests."""

    header: str
    role_of: Callable[[str], Role]
    secret: str  # key for the tokens of forms

    def visitor(self, headers: Mapping[str, str]) -> User | None:
        """Return the user that is named, if there is exactly one."""
        name = headers.get(self.header, "")
        if not _NAME.fullmatch(name):
            return None
        # Needs a form token: browsers send the proxy's cookie or password with forged forms too.
        token = _derived(self.secret.encode(), f"form {name}")
        return User(name, self.role_of(name), "proxy", token)


@dataclass(frozen=True, slots=True)
class SignedInUsers:
    """Users named by an OAuth provider and remembered by a signed cookie."""

    allows: Callable[[str], bool]
    role_of: Callable[[str], Role]
    secret: str  # key for the tokens of forms

    def visitor(self, name: str) -> User | None:
        """Return the signed-in user, if still allowed."""
        if not self.allows(name):
            return None
        token = _derived(self.secret.encode(), f"form {name}")
        return User(name, self.role_of(name), "oauth", token)


class Access:
    """Identifies visitors by the link's key, a password, a file of users, or a proxy.

    Args:
        key: of the link; visitors without it are strangers, with a stranger's role.
        owner: the name of those who have the key.
        password: `USER:PASSWORD`; without it nothing is shown.
        users: passwords with a role for each user.
        secret: key for the sessions of those who sign in with a password.
        named: users named by a proxy.
        signed_in: users named by an OAuth provider.
    """

    def __init__(
        self,
        *,
        key: str | None = None,
        owner: str = "operator",
        password: str | None = None,
        users: MonitorUsers | None = None,
        secret: str = "",
        named: NamedUsers | None = None,
        signed_in: SignedInUsers | None = None,
    ) -> None:
        self.key = key
        self._owner = owner
        self._key = None if key is None else key.encode()
        self._password = None if password is None else password.encode()
        self._users = users
        self._named = named
        self._signed_in = signed_in
        self._secret = secret.encode()
        self._cookies = SignedCookies(secret, self._proof_of) if secret else None
        self.tickets = Tickets()

    @property
    def wants_password(self) -> bool:
        return self._password is not None or self._users is not None

    @property
    def has_provider(self) -> bool:
        """Whether people sign in at an OAuth provider."""
        return self._signed_in is not None

    def visitor(
        self,
        headers: Mapping[str, str],
        cookie: str | None,
        signed: str | None = None,
        session: str | None = None,
    ) -> User | None:
        """Return the sender of a request; None if unknown. May take as long as checking a password.

        Args:
            cookie: that of the link.
            signed: the name in the cookie of a user of an OAuth provider.
            session: the cookie of who has signed in with a password.
        """
        if self._named is not None and (found := self._named.visitor(headers)):
            return found
        if self._signed_in is not None and signed is not None:
            return self._signed_in.visitor(signed)
        scheme, credentials = _shown(headers)
        if self._key is None:
            if not scheme and session is not None:
                return self._by_session(session)
            return self._by_password(scheme, credentials)
        if scheme == "bearer" and _equal(credentials.encode(), self._key):
            return User(self._owner, Role.OPERATE, "key")
        if cookie is not None and _equal(cookie.encode(), self.cookie.encode()):
            return User(self._owner, Role.OPERATE, "link", self._derived("form"))
        return ANONYMOUS

    def claim(self, headers: Mapping[str, str]) -> str | None:
        """Return the name for which a request shows a password, None if it shows none.

        Keys and secrets of programs are too long to be guessed.
        """
        scheme, credentials = _shown(headers)
        if scheme != "basic" or not self.wants_password:
            return None
        given = _decoded(credentials) or b""
        return given.partition(b":")[0].decode(errors="replace")

    def sign_in(self, name: str, password: str) -> str | None:
        """Return the cookie of a new session; None if the password is wrong. Deliberately slow."""
        if len(password) > _MOST_PASSWORD or self._cookies is None:
            return None
        found = self._by_name(name, password)
        return None if found is None else self._cookies.issue(name)

    def opens(self, key: str | None, ticket: str | None) -> bool:
        """Return whether a link has the right key, or a valid ticket."""
        if self._key is None:
            return False
        if ticket is not None:
            return self.tickets.redeem(ticket)
        return key is not None and _equal(key.encode(), self._key)

    @property
    def cookie(self) -> str:
        """The cookie for the link: not its key, which would also work elsewhere."""
        return self._derived("cookie")

    def _by_password(self, scheme: str, credentials: str) -> User | None:
        if scheme == "bearer" and credentials.startswith(API_PREFIX):
            name, _, secret = credentials.rpartition(".")
            return self._user(name, secret, "key")
        given = _decoded(credentials) if scheme == "basic" else None
        if given is None:
            return None
        name, _, password = given.decode(errors="replace").partition(":")
        return self._by_name(name, password)

    def _by_name(self, name: str, password: str) -> User | None:
        given = f"{name}:{password}".encode(errors="replace")
        if self._password is not None and _equal(given, self._password):
            return User(name, Role.OPERATE, "password")
        return self._user(name, password, "password")

    def _by_session(self, cookie: str) -> User | None:
        name = None if self._cookies is None else self._cookies.name_in(cookie)
        if name is None:
            return None
        user = None if self._users is None else self._users.users().get(name)
        role = Role.OPERATE if user is None else Role[user.role.upper()]
        return User(name, role, "session", _derived(self._secret, f"form {name}"))

    def _proof_of(self, name: str) -> bytes | None:
        """Return bytes that change with a user's password; None if there is no such user."""
        if self._password is not None and self._password.partition(b":")[0] == name.encode():
            return sha256(self._password).digest()
        user = None if self._users is None else self._users.users().get(name)
        return None if user is None else user.digest

    def _user(self, name: str, password: str, via: Literal["key", "password"]) -> User | None:
        found = None if self._users is None else self._users.find(name, password)
        return None if found is None else User(name, Role[found.role.upper()], via)

    def _derived(self, purpose: str) -> str:
        assert self._key is not None, "there is no link"
        return _derived(self._key, purpose)


def _shown(headers: Mapping[str, str]) -> tuple[str, str]:
    """Return the scheme and the credentials of a request."""
    scheme, _, credentials = headers.get("Authorization", "").strip().partition(" ")
    return scheme.lower(), credentials.strip()


def _decoded(credentials: str) -> bytes | None:
    try:
        return b64decode(credentials, validate=True)
    except ValueError:
        return None


def _derived(key: bytes, purpose: str) -> str:
    return hmac.new(key, purpose.encode(), sha256).hexdigest()


def comes_from_elsewhere(headers: Mapping[str, str], host: str) -> bool:
    """Return whether a page of another site has sent a request, as far as the browser tells."""
    site = headers.get("Sec-Fetch-Site")
    if site is not None:
        return site != "same-origin"
    origin = headers.get("Origin")
    return origin is not None and urlsplit(origin).netloc.lower() != host.lower()


def comes_from_here(headers: Mapping[str, str], host: str) -> bool:
    """Return whether the browser confirms that one of our pages has sent a request."""
    says = "Sec-Fetch-Site" in headers or "Origin" in headers
    return says and not comes_from_elsewhere(headers, host)


def _equal(given: bytes, expected: bytes) -> bool:
    return hmac.compare_digest(given, expected)
