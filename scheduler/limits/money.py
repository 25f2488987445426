"""Money in words."""

from __future__ import annotations

from math import floor, log10

# Below it, four digits after the point would not tell two significant ones.
_SMALL_USD = 0.001


def dollars(usd: float) -> str:
    """Return an amount with significant digits, however small: `$12.5000`, `$0.000012`, `$0`."""
    if usd <= 0:
        return "$0"
    digits = 4 if usd >= _SMALL_USD else 1 - floor(log10(usd))
    return f"${usd:,.{digits}f}"
