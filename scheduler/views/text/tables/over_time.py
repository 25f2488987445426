"""A table of sums over time: a row for each combination of names, with the total last."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sleipnir.scheduler.views.text import formatting


def lines_of(
    document: Mapping[str, Any],
    by: Sequence[str],
    head: Sequence[str],
    figures: Callable[[Mapping[str, Any]], tuple[str, ...]],
) -> list[str]:
    """Return its lines.

    Args:
        document: has `rows` and a `total`.
        by: the names that begin a row.
        head: what the figures are called.
        figures: returns those of a row.
    """
    rows = [
        (*(formatting.first_line(row[name] or "-") for name in by), *figures(row))
        for row in document["rows"]
    ]
    total = ("total", *("",) * (len(by) - 1), *figures(document["total"]))
    return formatting.columns((*(name.upper() for name in by), *head), [*rows, total])


def about_took(row: Mapping[str, Any]) -> tuple[str, ...]:
    """Return about how long half, and 95 %, of what a row counts took at most."""
    took = (row["took_s"][share] for share in ("p50", "p95"))
    return tuple("-" if each is None else f"~{_time(each)}" for each in took)


def waited(row: Mapping[str, Any]) -> str:
    """Return how long the calls of a row have waited for limits on average; `-`: none has."""
    return _time(row["waited_s"] / row["calls"]) if row["waited_s"] else "-"


def _time(seconds: float) -> str:
    return f"{seconds:.2g}s" if seconds < 9.95 else formatting.age(seconds)
