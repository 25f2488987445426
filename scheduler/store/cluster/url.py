"""Cluster URLs, which name nodes to ask for the others.

    redis+cluster://[[USER]:PASSWORD@]HOST[:PORT][,HOST[:PORT]…]
    rediss+cluster://…

Of several hosts, one that answers suffices. The options of TLS are those of `rediss://`.
"""

from __future__ import annotations

import re
from typing import Any

from redis.connection import parse_url

from sleipnir.records import dataclass

SCHEMES = ("redis+cluster://", "rediss+cluster://")
_PORT = 6379
_FORM = "redis+cluster://[:PASSWORD@]HOST:PORT[,HOST:PORT…]"
_ADDRESS = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^:\[\]/]+)(?::(\d{1,5}))?")

Address = tuple[str, int]


def is_cluster(url: str) -> bool:
    """Return whether a URL is one of a cluster."""
    return url.startswith(SCHEMES)


@dataclass(frozen=True, slots=True)
class ClusterUrl:
    """The parts of a cluster URL."""

    seeds: tuple[Address, ...]
    plain: str  # without hosts, for redis-py: scheme, login, HOST, options

    @classmethod
    def parse(cls, url: str) -> ClusterUrl:
        """Parse a URL.

        Raises:
            ValueError: it is not valid; the message contains no password.
        """
        scheme, _, rest = url.partition("://")
        place, mark, query = rest.partition("?")
        # Up to the last @, as a password may contain any character.
        login, at, hosts = place.rpartition("@")
        hosts, _, path = hosts.partition("/")
        if path.strip("/") not in ("", "0"):
            raise ValueError(f"a cluster has no database '{path}', only one: {_FORM}")
        seeds = tuple(_address(host) for host in hosts.split(","))
        return cls(seeds, f"{scheme.removesuffix('+cluster')}://{login}{at}HOST{mark}{query}")

    @property
    def first(self) -> str:
        """The first host, with its port."""
        host, port = self.seeds[0]
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

    def options(self) -> dict[str, Any]:
        """Return the options of connections to every node, without host and port.

        Raises:
            ValueError: an option is not valid.
        """
        parse: Any = parse_url  # untyped in redis-py
        found: dict[str, Any] = parse(self.plain)
        return {name: value for name, value in found.items() if name not in ("host", "port", "db")}


def _address(text: str) -> Address:
    found = _ADDRESS.fullmatch(text)
    if found is None:
        raise ValueError(f"'{text}' is not a valid HOST:PORT of a node: {_FORM}")
    return found[1].strip("[]"), int(found[2] or _PORT)
