"""A plan as text."""

from __future__ import annotations

from collections.abc import Iterator
from math import inf

from sleipnir.graphs.plan.interval import Interval
from sleipnir.scheduler.views.text.formatting import columns, usd
from sleipnir.worker.plan.amounts import Amounts
from sleipnir.worker.plan.document import InputPlan

_HEAD = ("NODE", "TYPE", "VISITS", "CALLS", "TOKENS IN", "TOKENS OUT", "USD")


def lines_of(plan: InputPlan) -> Iterator[str]:
    """Yield the table by node, of one run, and the total of all lines."""
    rows = [(row.node_id, row.type, _count(row.visits), *_cells(row.amounts)) for row in plan.nodes]
    one = "the run" if plan.lines == 1 else "each line"
    rows.append((one, "", "", *_cells(plan.per_line)))
    if plan.lines > 1:
        rows.append((f"{plan.lines:,} lines", "", "", *_cells(plan.total)))
    yield from columns(_HEAD, rows)
    if plan.known_prompt_share is not None:
        yield ""
        yield (
            f"Of the calls that are certain, {plan.known_prompt_share:.0%} have a prompt that is "
            "known before."
        )


def _cells(amounts: Amounts) -> tuple[str, ...]:
    money = _money(amounts.usd) if amounts.is_priced else "?"
    return (_count(amounts.calls), _count(amounts.tokens_in), _count(amounts.tokens_out), money)


def _count(bounds: Interval) -> str:
    if bounds.least == bounds.most:
        return f"{bounds.least:,.0f}" if bounds.most else "-"
    return f"{bounds.least:,.0f} … {'?' if bounds.most == inf else f'{bounds.most:,.0f}'}"


def _money(bounds: Interval) -> str:
    if bounds.most == 0:
        return "-"
    least = usd(bounds.least) if bounds.least else "$0"
    return f"{least} … {'?' if bounds.most == inf else usd(bounds.most)}"
