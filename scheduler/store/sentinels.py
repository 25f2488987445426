"""Sentinel URLs, which say where to ask for the current primary.

    sentinel://[[USER]:PASSWORD@]HOST[:PORT][,HOST[:PORT]…]/SERVICE[/DB][?sentinel_password=…]
    sentinels://…                          sentinels and Redis over TLS

User and password are for Redis; `sentinel_username` and `sentinel_password` are for the
sentinels. The options of TLS, which are for both, are those of `rediss://`. Special characters are
percent-encoded.
"""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import parse_qsl, quote, unquote

import redis
from redis.backoff import NoBackoff
from redis.connection import SSLConnection
from redis.retry import Retry
from redis.sentinel import Sentinel, SentinelManagedConnection

from sleipnir.records import dataclass
from sleipnir.scheduler.store.clients.tls import PREFIX as OF_TLS
from sleipnir.scheduler.store.clients.tls import SENTINELS as WITH_TLS
from sleipnir.scheduler.store.clients.tls import tls_options

_PLAIN = "sentinel://"
_PORT = 26379
# A sentinel that does not answer in time is skipped; there are others, and retries.
_MAX_WAIT_S = 2.0
_FORM = "sentinel://[:PASSWORD@]HOST:PORT[,HOST:PORT…]/SERVICE[/DB]"
_ADDRESS = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^:\[\]]+)(?::(\d{1,5}))?")


def is_sentinel(url: str) -> bool:
    """Return whether a URL names sentinels."""
    return url.startswith((_PLAIN, WITH_TLS))


@dataclass(frozen=True, slots=True)
class SentinelUrl:
    """The parts of a Sentinel URL."""

    addresses: tuple[tuple[str, int], ...]
    service: str
    db: int
    username: str | None
    password: str | None
    of_sentinels: dict[str, str]  # their `username` and `password`, as far as given
    tls: dict[str, Any] | None  # its options; None: without TLS

    @classmethod
    def parse(cls, url: str) -> SentinelUrl:
        """Parse a URL.

        Raises:
            ValueError: it is not valid; the message contains no password.
        """
        place, _, query = url.partition("://")[2].partition("?")
        tls = tls_options(url)
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
            _of_sentinels(query, has_tls=tls is not None),
            tls,
        )

    @property
    def sentinel_options(self) -> dict[str, Any]:
        """The options for clients of the sentinels."""
        return {
            "socket_timeout": _MAX_WAIT_S,
            "socket_connect_timeout": _MAX_WAIT_S,
            "retry": Retry(NoBackoff(), 0),
            **self.of_sentinels,
            **({} if self.tls is None else {"ssl": True, **self.tls}),
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
            connection_class=_Connection if self.tls is None else _TlsConnection,
            **(self.tls or {}),
            **options,
        )
        return client

    def describe_failure(self) -> str:
        """Return why no sentinel names a primary, which redis-py does not tell: they are asked."""
        answers = (f"{host}:{port} {self._answer_of(host, port)}" for host, port in self.addresses)
        return f"no sentinel names a primary of '{self.service}': {'; '.join(answers)}"

    def _answer_of(self, host: str, port: int) -> str:
        try:
            with redis.Redis(host=host, port=port, **self.sentinel_options) as sentinel:
                found: Any = sentinel.sentinel_masters()
        except redis.RedisError as error:
            return f"does not answer ({error})"
        return "says that it is down" if self.service in found else "does not know it"

    @property
    def kombu_url(self) -> str:
        """The same for kombu: one URL per sentinel; the service name is an option."""
        login = ""
        if self.password is not None:
            login = f"{quote(self.username or '', safe='')}:{quote(self.password, safe='')}@"
        hosts = ((f"[{host}]" if ":" in host else host, port) for host, port in self.addresses)
        return ";".join(f"{_PLAIN}{login}{host}:{port}/{self.db}" for host, port in hosts)

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


class _TlsConnection(_Connection, SSLConnection):
    """The same over TLS."""


def _address(text: str) -> tuple[str, int]:
    found = _ADDRESS.fullmatch(text)
    if found is None:
        raise ValueError(f"'{text}' is not a valid HOST:PORT of a sentinel: {_FORM}")
    return found[1].strip("[]"), int(found[2] or _PORT)


def _of_sentinels(query: str, *, has_tls: bool) -> dict[str, str]:
    given = {
        name: value
        for name, value in parse_qsl(query, keep_blank_values=True)
        if not (has_tls and name.startswith(OF_TLS))
    }
    names = {f"sentinel_{name}": name for name in ("username", "password")}
    if unknown := given.keys() - names.keys():
        raise ValueError(
            f"a Sentinel URL has no option '{min(unknown)}', only {' and '.join(names)}, and "
            f"with {WITH_TLS} those of TLS"
        )
    return {names[name]: value for name, value in given.items()}
