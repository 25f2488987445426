"""Sentinel URLs, which say where to ask for the current primary.

    sentinel://[[USER]:PASSWORD@]HOST[:PORT][,HOST[:PORT]…]/SERVICE[/DB][?sentinel_password=…]

User and password are for Redis; `sentinel_username` and `sentinel_password` are for the
sentinels. Special characters are percent-encoded.
"""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import parse_qsl, quote, unquote

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry
from redis.sentinel import Sentinel, SentinelManagedConnection

from sleipnir.records import dataclass

SCHEME = "sentinel://"
_PORT = 26379
# A sentinel that does not answer in time is skipped; there are others, and retries.
_MAX_WAIT_S = 2.0
_FORM = "sentinel://[:PASSWORD@]HOST:PORT[,HOST:PORT…]/SERVICE[/DB]"
_ADDRESS = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^:\[\]]+)(?::(\d{1,5}))?")


@dataclass(frozen=True, slots=True)
class SentinelUrl:
    """The parts of a Sentinel URL."""

    addresses: tuple[tuple[str, int], ...]
    service: str
    db: int
    username: str | None
    password: str | None
    of_sentinels: dict[str, str]  # their `username` and `password`, as far as given

    @classmethod
    def parse(cls, url: str) -> SentinelUrl:
        """Parse a URL.

        Raises:
            ValueError: it is not valid; the message contains no password.
        """
        place, _, query = url.removeprefix(SCHEME).partition("?")
        # Up to the last @, as in `masked`: a password may contain any character.
        login, _, place = place.rpartition("@")
        hosts, _, path = place.partition("/")
        service, _, db = path.partition("/")
        if not service:
            raise ValueError(f"the name of the service is missing: {_FORM}")
        if not re.fullmatch(r"\d*", db):
            raise ValueError(f"'{db}' is not a valid database number: {_FORM}")
        username, _, password = login.partition(":")
        return cls(
            tuple(_address(host) for host in hosts.split(",")),
            unquote(service),
            int(db or 0),
            unquote(username) or None,
            unquote(password) or None,
            _of_sentinels(query),
        )

    @property
    def sentinel_options(self) -> dict[str, Any]:
        """The options for clients of the sentinels."""
        return {
            "socket_timeout": _MAX_WAIT_S,
            "socket_connect_timeout": _MAX_WAIT_S,
            "retry": Retry(NoBackoff(), 0),
            **self.of_sentinels,
        }

    def client(self, **options: Any) -> redis.Redis:
        """Return a client of the primary, which is looked up for each new connection."""
        make_sentinel: Any = Sentinel  # untyped in redis-py
        sentinels = make_sentinel(list(self.addresses), sentinel_kwargs=self.sentinel_options)
        client: redis.Redis = sentinels.master_for(
            self.service,
            db=self.db,
            username=self.username,
            password=self.password,
            connection_class=_Connection,
            **options,
        )
        return client

    @property
    def kombu_url(self) -> str:
        """The same for kombu: one URL per sentinel; the service name is an option."""
        login = ""
        if self.password is not None:
            login = f"{quote(self.username or '', safe='')}:{quote(self.password, safe='')}@"
        hosts = ((f"[{host}]" if ":" in host else host, port) for host, port in self.addresses)
        return ";".join(f"{SCHEME}{login}{host}:{port}/{self.db}" for host, port in hosts)

    @property
    def kombu_options(self) -> dict[str, Any]:
        """The options of kombu's transport that go with `kombu_url`."""
        return {"master_name": self.service, "sentinel_kwargs": self.sentinel_options}


class _Connection(SentinelManagedConnection):
    """A connection that looks up the primary whenever it reconnects.

    redis-py looks it up only when a connection is taken from its pool; one that a thread keeps
    would try forever to reach the old server.
    """

    def connect_check_health(
        self, check_health: bool = True, retry_socket_connect: bool = True
    ) -> None:
        """Connect as redis-py does, to the current primary."""
        if self._sock is None:
            self.host, self.port = self.connection_pool.get_master_address()
            super().connect_check_health(check_health, retry_socket_connect)


def _address(text: str) -> tuple[str, int]:
    found = _ADDRESS.fullmatch(text)
    if found is None:
        raise ValueError(f"'{text}' is not a valid HOST:PORT of a sentinel: {_FORM}")
    return found[1].strip("[]"), int(found[2] or _PORT)


def _of_sentinels(query: str) -> dict[str, str]:
    given = dict(parse_qsl(query, keep_blank_values=True))
    names = {f"sentinel_{name}": name for name in ("username", "password")}
    if unknown := given.keys() - names.keys():
        raise ValueError(
            f"a Sentinel URL has no option '{min(unknown)}', only {' and '.join(names)}"
        )
    return {names[name]: value for name, value in given.items()}
