"""A plan as text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import inf
from typing import TYPE_CHECKING, Literal

from sleipnir.graphs.plan.interval import Interval
from sleipnir.scheduler.views.text.formatting import age, columns, usd
from sleipnir.scheduler.views.text.terminal_output import printable
from sleipnir.worker.plan.amounts import Amounts
from sleipnir.worker.plan.document import InputPlan
from sleipnir.worker.plan.sample import LineSample

if TYPE_CHECKING:
    from sleipnir.scheduler.views.types.plans import SampledAmountsDocument

# From here on, what is expected is told without a tenth.
_WHOLE_FROM = 10
_HEAD = ("NODE", "TYPE", "VISITS", "CALLS", "TOKENS IN", "TOKENS OUT", "USD")


def lines_of(plan: InputPlan, sample: LineSample | None = None) -> Iterator[str]:
    """Yield the table by node, of one run, and the total of all lines.

    Args:
        sample: tells what is expected between the least and the most.
    """
    known = sample if sample is not None and sample.lines else None
    rows = []
    for row in plan.nodes:
        means = None if known is None else known.means(row.node_id)
        visits = count_text(row.visits, None if means is None else means["visits"])
        rows.append((row.node_id, row.type, visits, *amount_cells(row.amounts, means)))
    one = "the run" if plan.lines == 1 else "each line"
    means = None if known is None else known.means()
    rows.append((one, "", "", *amount_cells(plan.per_line, means)))
    if plan.lines > 1:
        sums = None
        if known is not None:
            sums = {name: each.expected for name, each in plan.estimates(known).items()}
        rows.append((f"{plan.lines:,} lines", "", "", *amount_cells(plan.total, sums)))
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
    line = sample.summaries()
    yield (
        f"From {count:,} of {plan.lines:,} lines ({failed:,} failed), which are finished in batch "
        f"{printable(sample.batch)}: a line makes {_line_text(line, 'mean')}."
    )
    yield f"Nine of ten make at most {_line_text(line, 'p90')}."
    routes = sample.to_json(())["routes"]
    for route in routes:
        label = printable(route["label"])
        yield f"  {route['node']} ({label}): taken by {route['lines']:,} of {count:,} lines"
    if plan.total.is_priced:
        found = plan.estimates(sample)["usd"]
        between = ""
        if found.low is not None and found.high is not None:
            between = f", in nine of ten cases between {_usd(found.low)} and {_usd(found.high)}"
        yield f"All {plan.lines:,} lines cost about {_usd(found.expected)}{between}."
    if time_s is not None:
        yield f"They take about {age(time_s)}."


def _line_text(line: SampledAmountsDocument, which: Literal["mean", "p90"]) -> str:
    return (
        f"{line['calls'][which]:,.1f} calls of {line['tokens_in'][which]:,.0f} + "
        f"{line['tokens_out'][which]:,.0f} tokens in {line['seconds'][which]:,.1f} s"
    )


def _usd(amount: float) -> str:
    return usd(amount) if amount else "$0"


def amount_cells(amounts: Amounts, expected: Mapping[str, float] | None = None) -> tuple[str, ...]:
    """Return calls, tokens in and out, and USD, each from the least to the most.

    Args:
        expected: what is expected of each; None: nothing is.
    """
    given = expected or {}
    money = _money(amounts.usd, given.get("usd")) if amounts.is_priced else "?"
    return (
        count_text(amounts.calls, given.get("calls")),
        count_text(amounts.tokens_in, given.get("tokens_in")),
        count_text(amounts.tokens_out, given.get("tokens_out")),
        money,
    )


def count_text(bounds: Interval, expected: float | None = None) -> str:
    """Return the least and the most of a number; a question mark is no bound, or not known."""
    if bounds.least == bounds.most:
        return f"{bounds.least:,.0f}" if bounds.most else "-"
    most = "?" if bounds.most == inf else f"{bounds.most:,.0f}"
    between = "" if expected is None else f"~{_rounded(expected)} … "
    return f"{bounds.least:,.0f} … {between}{most}"


def _rounded(number: float) -> str:
    return f"{number:,.0f}" if number >= _WHOLE_FROM or number == int(number) else f"{number:.1f}"


def _money(bounds: Interval, expected: float | None) -> str:
    if bounds.most == 0:
        return "-"
    between = "" if expected is None else f"~{_usd(expected)} … "
    return f"{_usd(bounds.least)} … {between}{'?' if bounds.most == inf else usd(bounds.most)}"
