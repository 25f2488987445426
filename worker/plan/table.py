"""A plan as text."""

from __future__ import annotations

from collections.abc import Iterator
from math import inf

from sleipnir.graphs.plan.span import Span
from sleipnir.scheduler.views.text.formatting import columns, usd
from sleipnir.worker.plan.amounts import Amounts
from sleipnir.worker.plan.document import Plan

_HEAD = ("NODE", "TYPE", "VISITS", "CALLS", "TOKENS IN", "TOKENS OUT", "USD")


def lines_of(plan: Plan) -> Iterator[str]:
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


def _count(span: Span) -> str:
    if span.least == span.most:
        return f"{span.least:,.0f}" if span.most else "-"
    return f"{span.least:,.0f} … {'?' if span.most == inf else f'{span.most:,.0f}'}"


def _money(span: Span) -> str:
    if span.most == 0:
        return "-"
    least = usd(span.least) if span.least else "$0"
    return f"{least} … {'?' if span.most == inf else usd(span.most)}"
