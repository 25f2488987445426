"""The table of what model calls have cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sleipnir.scheduler.limits import money
from sleipnir.scheduler.views.text import formatting
from sleipnir.scheduler.views.text.tables import over_time

_HEAD = ("CALLS", "FAILED", "HALF", "95 %", "WAITED", "IN", "CACHED", "OUT", "COST")


def lines_of(document: Mapping[str, Any], by: Sequence[str]) -> list[str]:
    """Return the lines of the table, with the total last, from a `SpendDocument`."""
    return over_time.lines_of(document, by, _HEAD, _figures)


def _figures(row: Mapping[str, Any]) -> tuple[str, ...]:
    return (
        f"{row['calls']:,}",
        formatting.amount(row["failed_calls"]),
        *over_time.about_took(row),
        over_time.waited(row),
        f"{row['tokens_in']:,}",
        formatting.amount(row["cached"]),
        f"{row['tokens_out']:,}",
        cost(row),
    )


def cost(row: Mapping[str, Any]) -> str:
    """Return the cost of the calls of a row, as far as it is known."""
    unknown = row["unknown_price_calls"]
    if unknown and unknown == row["calls"]:
        return "?"
    return f"{'at least ' if unknown else ''}{money.dollars(row['cost_usd'])}"
