"""Formatting of amounts of money."""

from __future__ import annotations

from math import floor, log10

# Below this, four decimals would show fewer than two significant digits.
_SMALL_USD = 0.001


def dollars(usd: float) -> str:
    """Return an amount with at least two significant digits: `$12.5000`, `$0.000012`, `$0`."""
    if usd <= 0:
        return "$0"
    digits = 4 if usd >= _SMALL_USD else 1 - floor(log10(usd))
    return f"${usd:,.{digits}f}"
