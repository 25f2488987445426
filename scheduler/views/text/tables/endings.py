"""The table of how runs ended."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sleipnir.scheduler.limits import money
from sleipnir.scheduler.views.text import formatting
from sleipnir.scheduler.views.text.tables import over_time

_HEAD = ("RUNS", "SUCCEEDED", "FAILED", "TIMED OUT", "CANCELLED", "HALF", "95 %", "COST", "95 %")


def lines_of(document: Mapping[str, Any], by: Sequence[str]) -> list[str]:
    """Return the lines of the table, with the total last, from an `EndedDocument`."""
    return over_time.lines_of(document, by, _HEAD, _figures)


def _figures(row: Mapping[str, Any]) -> tuple[str, ...]:
    counts = (row[name] for name in ("runs", "succeeded", "failed", "timed_out", "cancelled"))
    costs = (row["cost_usd"][share] for share in ("p50", "p95"))
    return (
        *(formatting.amount(count) for count in counts),
        *over_time.about_took(row),
        *(f"~{money.dollars(each)}" if each else "-" for each in costs),
    )
