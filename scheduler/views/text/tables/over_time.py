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
