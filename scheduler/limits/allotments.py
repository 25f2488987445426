"""Plain records of allotments: calls that a worker process may admit by itself for a second."""

from __future__ import annotations

from sleipnir.records import dataclass
from sleipnir.scheduler.limits.money import nano
from sleipnir.scheduler.limits.records import Reservation, Used


@dataclass(frozen=True, slots=True)
class Amount:
    """A number of calls, and what they reserve together."""

    calls: int = 0
    tokens: int = 0  # expected usage
    worst_tokens: int = 0  # maximum usage
    worst_nano: int = 0  # its cost, in billionths of a dollar

    def __add__(self, other: Amount) -> Amount:
        return Amount(
            self.calls + other.calls,
            self.tokens + other.tokens,
            self.worst_tokens + other.worst_tokens,
            self.worst_nano + other.worst_nano,
        )

    def __sub__(self, other: Amount) -> Amount:
        return Amount(
            self.calls - other.calls,
            self.tokens - other.tokens,
            self.worst_tokens - other.worst_tokens,
            self.worst_nano - other.worst_nano,
        )

    def mean(self) -> Amount:
        """Return what a call of them reserves on average."""
        calls = max(1, self.calls)
        return Amount(1, self.tokens // calls, self.worst_tokens // calls, self.worst_nano // calls)

    def covers(self, other: Amount) -> bool:
        """Return whether it is at least as much of everything."""
        return (
            self.calls >= other.calls
            and self.tokens >= other.tokens
            and self.worst_tokens >= other.worst_tokens
            and self.worst_nano >= other.worst_nano
        )


NOTHING = Amount()


def amount_of(call: Reservation) -> Amount:
    """Return what one call reserves."""
    return Amount(1, call.tokens, call.worst_tokens, nano(call.worst_usd))


@dataclass(frozen=True, slots=True)
class Settlement:
    """What a worker process tells of an allotment, and what more it asks for."""

    settlement_id: str
    allotment: str
    like: Reservation  # one of its calls: all have the same limits and budgets
    budgets: tuple[str, ...]  # the names of those it holds a part of
    held: Amount  # what it has held since the last settlement
    kept: Amount  # what it still needs of that: for calls under way, or to come
    begun: Amount  # calls that have begun since
    ended: Amount  # what those had reserved that have ended since
    used: Used  # by these, together; `took_s` on average
    asked: Amount = NOTHING


@dataclass(frozen=True, slots=True)
class Allotted:
    """The answer to a settlement."""

    amount: Amount
    budgets: tuple[str, ...]
    woken: tuple[str, ...]  # calls whose turn it is now
