"""An amount between two bounds."""

from __future__ import annotations

from math import inf

from sleipnir.records import dataclass


@dataclass(frozen=True, slots=True)
class Interval:
    """At least and at most so much; `inf`: without bound, or unknown."""

    least: float
    most: float

    def __add__(self, other: Interval) -> Interval:
        return Interval(self.least + other.least, self.most + other.most)

    def __mul__(self, times: Interval) -> Interval:
        return Interval(_product(self.least, times.least), _product(self.most, times.most))

    def or_other(self, other: Interval) -> Interval:
        """Return what holds for either of two cases."""
        return Interval(min(self.least, other.least), max(self.most, other.most))


NOTHING = Interval(0, 0)
UNKNOWN = Interval(0, inf)


def exactly(amount: float) -> Interval:
    """Return a known amount."""
    return Interval(amount, amount)


def _product(one: float, other: float) -> float:
    # Nothing of something without bound is nothing.
    return 0 if one == 0 or other == 0 else one * other
