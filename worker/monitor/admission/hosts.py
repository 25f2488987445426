"""The host names that the monitor answers to, to prevent DNS rebinding.

A browser lets a page of a site whose name resolves to this server read its responses, so requests
for other names are refused.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Collection

from sleipnir.records import dataclass

# A name or an IPv4 address, or an IPv6 address in brackets; then the port.
_HOST = re.compile(r"(?:\[([0-9A-Fa-f:.]+)\]|([^\[\]:@/\s]+))(?::[0-9]*)?")


@dataclass(frozen=True, slots=True)
class Hosts:
    """The names of the monitor.

    Args:
        address: the address it listens on.
        names: the setting `monitor_hosts`.
    """

    address: str
    names: Collection[str] = ()

    def include(self, host: str | None, local: str | None) -> bool:
        """Return whether to answer a request.

        Args:
            host: its `Host` header.
            local: our address on which it arrived.
        """
        found = _HOST.fullmatch(host or "")
        if found is None:
            return False
        name = _plain(found[1] or found[2])
        if name in map(_plain, self.names):
            return True
        here = _plain(local or self.address)
        if is_loopback(here):
            return is_loopback(name)
        return not self.names and name in (here, _plain(self.address))


def is_loopback(address: str) -> bool:
    """Return whether an address or name is this machine's loopback."""
    if address == "localhost":
        return True
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return False


def _plain(name: str) -> str:
    """Normalise the spelling of a name or address."""
    name = name.lower().removesuffix(".").removeprefix("[").removesuffix("]")
    try:
        address = ipaddress.ip_address(name.partition("%")[0])
    except ValueError:
        return name
    mapped = getattr(address, "ipv4_mapped", None)
    return str(mapped or address)
