"""The network addresses that tools may access: public ones, unless the engine allows others.

What counts is what a name resolves to: `127.1`, `0x7f000001` and a DNS name that points into a
private network are all refused. Connect to the addresses returned: resolving the name again would
let its owner answer differently.
"""

from __future__ import annotations

import ipaddress
import os
import socket

ALLOW_PRIVATE = "LLM_ALLOW_PRIVATE_ADDRESSES"

# IPv6 addresses in this network stand for the IPv4 address in their last 32 bits.
_NAT64 = ipaddress.ip_network("64:ff9b::/96")
# All other public addresses of IPv6 are in here.
_UNICAST = ipaddress.ip_network("2000::/3")
# Reserved, which the library does not know in all versions of Python.
_RESERVED = tuple(map(ipaddress.ip_network, ("192.0.0.0/24", "192.88.99.0/24", "3fff::/20")))


class AddressRefused(Exception):
    """A host has an address that tools may not access."""


class HostUnknown(Exception):
    """A host name has no address."""


def private_allowed() -> bool:
    """Return whether the engine lets tools access private addresses."""
    return bool(os.environ.get(ALLOW_PRIVATE))


def resolve(host: str, port: int, allow_private: bool) -> list[str]:
    """Return the addresses of a host, all of them allowed.

    Raises:
        HostUnknown: the name does not resolve.
        AddressRefused: one of its addresses is not public, and private ones are not allowed.
    """
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise HostUnknown(f"cannot resolve the host {host!r}: {error}") from error
    addresses = list(dict.fromkeys(str(entry[4][0]) for entry in found))
    for address in addresses:
        if not allow_private and not is_public(address):
            named = address if address == host else f"{host}, which is {address},"
            raise AddressRefused(
                f"refused: {named} is not a public address; "
                "the engine's setting allow_private_addresses permits such"
            )
    return addresses


def is_public(address: str) -> bool:
    """Return whether an address, and any IPv4 address inside it, belongs to the public network."""
    # An IPv6 address may name a network interface, as in fe80::1%eth0.
    ip = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(ip, ipaddress.IPv4Address):
        return _is_global(ip)
    if ip.ipv4_mapped is not None:
        return _is_global(ip.ipv4_mapped)
    if ip in _NAT64:
        return _is_global(ipaddress.IPv4Address(int(ip) & 0xFFFFFFFF))
    # What a tunnel would turn it into. Earlier versions of Python take all of 6to4 for private.
    if ip.sixtofour is not None:
        return _is_global(ip.sixtofour)
    return ip in _UNICAST and all(map(_is_global, (ip, *(ip.teredo or ()))))


def _is_global(ip: ipaddress.IPv4Address | ipaddress.IPv6Address) -> bool:
    is_reserved = any(ip in network for network in _RESERVED)
    return ip.is_global and not ip.is_multicast and not is_reserved
