"""A plan as text."""

from __future__ import annotations

from collections.abc import Iterator
from math import inf

from sleipnir.graphs.plan.interval import Interval
from sleipnir.scheduler.views.text.formatting import age, columns, usd
from sleipnir.scheduler.views.text.terminal_output import printable
from sleipnir.worker.plan.amounts import Amounts
from sleipnir.worker.plan.document import InputPlan
from sleipnir.worker.plan.sample import LineSample

_HEAD = ("NODE", "TYPE", "VISITS", "CALLS", "TOKENS IN", "TOKENS OUT", "USD")


def lines_of(plan: InputPlan) -> Iterator[str]:
    """Yield the table by node, of one run, and the total of all lines."""
    rows = [
        (row.node_id, row.type, count_text(row.visits), *amount_cells(row.amounts))
        for row in plan.nodes
    ]
    one = "the run" if plan.lines == 1 else "each line"
    rows.append((one, "", "", *amount_cells(plan.per_line)))
    if plan.lines > 1:
        rows.append((f"{plan.lines:,} lines", "", "", *amount_cells(plan.total)))
    yield from columns(_HEAD, rows)
    if plan.known_prompt_share is not None:
        yield ""
        yield (
            f"Of the calls that are certain, {plan.known_prompt_share:.0%} have a prompt that is "
            "known before."
        )


def sample_lines(plan: InputPlan, sample: LineSample, time_s: float | None) -> Iterator[str]:
    """Yield what a sample tells of all lines."""
    count = len(sample.lines)
    if not count:
        yield f"No line of batch {printable(sample.batch)} has finished, so nothing is expected."
        return
    failed = sum(not line.succeeded for line in sample.lines.values())
    line = sample.means()
    yield (
        f"From {count:,} of {plan.lines:,} lines ({failed:,} failed), which are finished in batch "
        f"{printable(sample.batch)}: a line makes {line['calls']:,.1f} calls of "
        f"{line['tokens_in']:,.0f} + {line['tokens_out']:,.0f} tokens in {sample.mean_s:,.1f} s."
    )
    if plan.total.is_priced:
        found = plan.estimates(sample)["usd"]
        between = ""
        if found.low is not None and found.high is not None:
            between = f", in nine of ten cases between {_usd(found.low)} and {_usd(found.high)}"
        yield f"All {plan.lines:,} lines cost about {_usd(found.expected)}{between}."
    if time_s is not None:
        yield f"They take about {age(time_s)}."


def _usd(amount: float) -> str:
    return usd(amount) if amount else "$0"


def amount_cells(amounts: Amounts) -> tuple[str, ...]:
    """Return calls, tokens in and out, and USD, each from the least to the most."""
    money = _money(amounts.usd) if amounts.is_priced else "?"
    return (
        count_text(amounts.calls),
        count_text(amounts.tokens_in),
        count_text(amounts.tokens_out),
        money,
    )


def count_text(bounds: Interval) -> str:
    """Return the least and the most of a number; a question mark is no bound, or not known."""
    if bounds.least == bounds.most:
        return f"{bounds.least:,.0f}" if bounds.most else "-"
    return f"{bounds.least:,.0f} … {'?' if bounds.most == inf else f'{bounds.most:,.0f}'}"


def _money(bounds: Interval) -> str:
    if bounds.most == 0:
        return "-"
    return f"{_usd(bounds.least)} … {'?' if bounds.most == inf else usd(bounds.most)}"
