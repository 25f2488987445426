"""The tables of a batch by node and by route."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from sleipnir.scheduler.views.text.formatting import amount, columns, first_line, usd

if TYPE_CHECKING:
    from sleipnir.scheduler.views.types.batches import BatchNodeDocument, BatchRouteDocument

_NODES = (
    *("NODE", "VISITS", "FAILED", "RETRIED", "CALLS", "EXTRACTION", "CACHED", "TOKENS", "COST"),
    "SHARE",
)
_ROUTES = ("NODE", "ROUTE", "LINES", "TO")


def lines_of(
    nodes: Sequence[BatchNodeDocument], routes: Sequence[BatchRouteDocument]
) -> Iterator[str]:
    """Yield the lines of both tables, an empty one before each."""
    if nodes:
        yield ""
        yield from columns(_NODES, [_node(row) for row in nodes])
    if routes:
        yield ""
        yield from columns(_ROUTES, [_route(row) for row in routes])


def _node(row: BatchNodeDocument) -> tuple[str, ...]:
    calls = row["calls"], row["extraction_calls"], row["cached"]
    figures = row["visits"], row["failed"], row["retried"], *calls, row["tokens"]
    share = row["share"]
    return (
        row["id"],
        *(amount(figure) if figure else "-" for figure in figures),
        usd(row["cost_usd"]) if row["calls"] else "-",
        f"{share:.0%}" if share else "-",
    )


def _route(row: BatchRouteDocument) -> tuple[str, ...]:
    return (
        row["node"],
        first_line(row["label"]),
        amount(row["lines"]) if row["lines"] else "-",
        ", ".join(row["to"]),
    )
