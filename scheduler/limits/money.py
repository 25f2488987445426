"""Amounts of money: as text, and as budgets count them."""

from __future__ import annotations

from math import ceil, floor, log10

NANO = 1_000_000_000  # budgets are counted in billionths of a dollar
# Below this, four decimals would show fewer than two significant digits.
_SMALL_USD = 0.001


def dollars(usd: float) -> str:
    """Return an amount with at least two significant digits: `$12.5000`, `$0.000012`, `$0`."""
    if usd <= 0:
        return "$0"
    digits = 4 if usd >= _SMALL_USD else 1 - floor(log10(usd))
    return f"${usd:,.{digits}f}"


def nano(usd: float) -> int:
    """Return an amount in billionths of a dollar, rounded up."""
    return ceil(round(usd * NANO, 3))  # 1e-9 is not exactly a billionth
