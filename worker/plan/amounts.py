"""The amounts that a plan is made of."""

from __future__ import annotations

from dataclasses import fields
from math import inf
from typing import Any

from sleipnir.graphs.plan.interval import NOTHING, UNKNOWN, Interval
from sleipnir.records import dataclass


@dataclass(frozen=True, slots=True)
class Amounts:
    """Model calls, their tokens, and what they cost in USD."""

    calls: Interval = NOTHING
    tokens_in: Interval = NOTHING
    tokens_out: Interval = NOTHING
    usd: Interval = NOTHING
    is_priced: bool = True  # else `usd` holds for the calls whose price is known

    def __add__(self, other: Amounts) -> Amounts:
        return Amounts(
            self.calls + other.calls,
            self.tokens_in + other.tokens_in,
            self.tokens_out + other.tokens_out,
            self.usd + other.usd,
            self.is_priced and other.is_priced,
        )

    def __mul__(self, times: Interval) -> Amounts:
        return Amounts(
            self.calls * times,
            self.tokens_in * times,
            self.tokens_out * times,
            self.usd * times,
            self.is_priced,
        )

    def or_other(self, other: Amounts) -> Amounts:
        """Return what holds for either of two lines."""
        return Amounts(
            self.calls.or_other(other.calls),
            self.tokens_in.or_other(other.tokens_in),
            self.tokens_out.or_other(other.tokens_out),
            self.usd.or_other(other.usd),
            self.is_priced and other.is_priced,
        )

    def to_json(self) -> dict[str, Any]:
        """Return the amounts by name; null: unknown, or without a bound."""
        document = {
            each.name: interval_json(getattr(self, each.name))
            for each in fields(self)
            if each.name != "is_priced"
        }
        if not self.is_priced:
            document["usd"] = dict.fromkeys(document["usd"])
        return document


# Of a child agent or tool loop of which nothing is known.
ANY_AMOUNTS = Amounts(UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN)


def interval_json(bounds: Interval) -> dict[str, float | None]:
    """Return a bounds with the keys of a plan; what is expected is known from a sample only."""
    return {"least": _number(bounds.least), "expected": None, "most": _number(bounds.most)}


def _number(amount: float) -> float | None:
    if amount == inf:
        return None
    return int(amount) if amount == int(amount) else amount
