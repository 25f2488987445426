"""Limits how often one visitor may send requests."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from ipaddress import ip_address, ip_network
from time import monotonic

from sleipnir.records import dataclass

# Limit on visitors remembered; the oldest is forgotten first.
_REMEMBERED = 10_000


@dataclass(frozen=True, slots=True)
class AllowedRate:
    """At most `count` in `seconds`, all of which may come at once."""

    count: int
    seconds: float


READS = AllowedRate(50, 1.0)
ACTS = AllowedRate(10, 1.0)
TRIGGERS = AllowedRate(20, 1.0)  # of one trigger
FAILED_SIGN_INS = AllowedRate(5, 60.0)


def source_of(address: str | None) -> str:
    """Return what guesses are counted by: an address, or the /64 network of an IPv6 address."""
    try:
        found = ip_address(address or "")
    except ValueError:
        return address or ""
    return str(ip_network((found, 64), strict=False)) if found.version == 6 else str(found)


class VisitorRates:
    """Counts requests by visitors' names."""

    def __init__(self, allowed: AllowedRate, clock: Callable[[], float] = monotonic) -> None:
        self._allowed = allowed
        self._clock = clock
        # how many, and since when
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, name: str) -> float:
        """Count one request; return 0, or the seconds until it would be allowed."""
        left = self._now(name)
        if left < 1:
            return (1 - left) * self._allowed.seconds / self._allowed.count
        self._left[name] = left - 1, self._clock()
        self._left.move_to_end(name)
        while len(self._left) > _REMEMBERED:
            self._left.popitem(last=False)
        return 0.0

    def wait_s(self, name: str) -> float:
        """Return the seconds until a request would be allowed, without counting one."""
        left = self._now(name)
        return 0.0 if left >= 1 else (1 - left) * self._allowed.seconds / self._allowed.count

    def _now(self, name: str) -> float:
        left, since = self._left.get(name, (float(self._allowed.count), self._clock()))
        refilled = (self._clock() - since) * self._allowed.count / self._allowed.seconds
        return min(float(self._allowed.count), left + refilled)
