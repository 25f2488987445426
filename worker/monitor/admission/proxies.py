"""Headers that trusted proxies add to requests; they are removed from all other requests."""

from __future__ import annotations

import re
from collections.abc import Collection
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import Any

from sleipnir.scheduler.errors import SettingInvalid

_FOR, _PROTO, _HOST = "X-Forwarded-For", "X-Forwarded-Proto", "X-Forwarded-Host"
_HEADER = re.compile(r"[A-Za-z0-9-]{1,64}")


class Proxies:
    """Proxies in front of the monitor.

    Args:
        trusted: their addresses and networks, the setting `monitor_proxies`.
        user_header: the header in which they name the user, the setting `monitor_user_header`.

    Raises:
        SettingInvalid: one of these is invalid.
    """

    def __init__(self, trusted: Collection[str] = (), user_header: str | None = None) -> None:
        self._trusted = [_network(each) for each in trusted]
        if user_header is not None and not _HEADER.fullmatch(user_header):
            raise SettingInvalid(f"monitor_user_header: '{user_header}' cannot name a header")
        self._names = (_FOR, _PROTO, _HOST, *([] if user_header is None else [user_header]))

    def read(self, request: Any) -> None:
        """Set a request's sender and protocol from trusted headers; remove untrusted ones."""
        headers = request.headers
        if not self._trusts(request.remote_ip):
            for name in self._names:
                headers.pop(name, None)
            return
        request.remote_ip = self._sender(headers.get(_FOR, ""), request.remote_ip)
        protocol = _last(headers.get(_PROTO, ""))
        if protocol in ("http", "https"):
            request.protocol = protocol
        request.host = _last(headers.get(_HOST, "")) or request.host

    def _sender(self, forwarded: str, sender: str) -> str:
        """Return the address from which the outermost trusted proxy got the request."""
        for text in reversed(forwarded.split(",")):
            if _address(text.strip()) is None or not self._trusts(sender):
                break
            sender = text.strip()
        return sender

    def _trusts(self, text: str) -> bool:
        address = _address(text)
        return address is not None and any(address in network for network in self._trusted)


def _network(text: str) -> Any:
    try:
        return ip_network(text)
    except ValueError as error:
        raise SettingInvalid(
            f"monitor_proxies: {error}; expected addresses and networks such as 10.0.0.5 "
            "and 10.1.0.0/16"
        ) from error


def _address(text: str) -> IPv4Address | IPv6Address | None:
    try:
        address = ip_address(text)
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address


def _last(text: str) -> str:
    """Return the last value, added by the nearest proxy."""
    return text.rpartition(",")[2].strip().lower()
