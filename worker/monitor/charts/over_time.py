"""Charts over minutes, hours or days: stacked columns, or lines; with axes, a legend and a table.

The drawing is stretched to its place; its texts are beside it, so that they keep their size.
`chart.js` adds a crosshair, which reads its numbers from the table.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from tornado.escape import xhtml_escape

from sleipnir.records import dataclass
from sleipnir.worker.monitor.charts.slots import (
    Per,
    label_width,
    slot_text,
    slot_title,
    steps_to,
)
from sleipnir.worker.monitor.formats import NONE, isolated

_PITCH = 10  # of a column
_GAP = 2
_HIGH = 100
_LEAST = 0.8  # height of what is not 0


@dataclass(frozen=True, slots=True)
class Series:
    """Numbers over time, None where there is none."""

    label: str
    style: str  # a class that gives the colour: `series-1`, `state-failed`
    values: Sequence[float | None]


@dataclass(frozen=True, slots=True)
class Chart:
    """A chart over minutes, hours or days."""

    title: str  # also what the drawing is called
    per: Per
    starts: Sequence[str]  # of each of them, RFC 3339; the last is under way
    until: str
    series: Sequence[Series]  # columns: the first at the bottom
    text: Callable[[float], str] = "{:,.0f}".format  # of a number
    # Of the axis' numbers; lines are not added up.
    has_whole_numbers: bool = True
    lines: bool = False
    # Where one gets from a time: an address with `{since}` and `{until}`.
    address: str = ""
    limit: float | None = None  # a line across, such as a budget
    limit_label: str = ""


def over_time(chart: Chart, root: str = "") -> str:
    """Return a chart as HTML; what others wrote is escaped.

    Args:
        root: the site's prefix, which stands before the chart's address.
    """
    if chart.address:
        chart = replace(chart, address=f"{root}{chart.address}")
    steps = steps_to(_most(chart), whole=chart.has_whole_numbers)
    given = f' data-address="{_text(chart.address)}"' if chart.address else ""
    return (
        f'<figure class="chart" data-chart{given} data-until="{_text(chart.until)}">'
        f"{_legend(chart)}"
        f'<div class="plot"><div class="y-axis" aria-hidden="true">{_numbers(chart, steps)}</div>'
        f'<div class="drawn" tabindex="0" role="group" aria-label="{_text(chart.title)}: arrow '
        f'keys show the numbers of a time">{_drawing(chart, steps)}</div>'
        f'<div class="x-axis" aria-hidden="true">{_instants(chart)}</div></div>'
        f"{_table(chart)}</figure>"
    )


def summary(chart: Chart) -> str:
    """Return a sentence on a chart."""
    totals = _sums(chart)
    if not any(totals):
        return f"{chart.title}: nothing"
    at = max(range(len(totals)), key=lambda each: totals[each])
    most = f"most {chart.text(totals[at])} ({slot_title(chart.starts[at], chart.per)} UTC)"
    if chart.lines:
        return f"{chart.title}: {most}"
    parts = ", ".join(f"{chart.text(_total(each))} {each.label}" for each in chart.series)
    return f"{chart.title}: {chart.text(sum(totals))} in all, {most}; {parts}"


def spark(values: Sequence[float | None], label: str, full: float = 0) -> str:
    """Return a small drawing of numbers over time, without axes.

    Args:
        full: what fills its height; 0: the greatest of them. Nothing is drawn of zeros alone.
    """
    most = max((value or 0 for value in values), default=0)
    if most <= 0:
        return ""
    most = max(most, full)
    columns = "".join(
        f'<rect x="{at * 4}" y="{24 - high:.1f}" width="3" height="{high:.1f}"/>'
        for at, value in enumerate(values)
        if (high := max(24 * value / most, 1.0) if value else 0.0)
    )
    return (
        f'<svg class="spark" viewBox="0 0 {4 * len(values)} 24" preserveAspectRatio="none" '
        f'role="img" aria-label="{_text(label)}">{columns}</svg>'
    )


def _form(chart: Chart) -> str:
    """Return how its instants are written, as `times.js` calls it."""
    return "day" if chart.per == "day" else "hour"


def _most(chart: Chart) -> float:
    return max(max(_sums(chart), default=0), chart.limit or 0)


def _sums(chart: Chart) -> list[float]:
    """Return how high a chart is at each time."""
    add_up = max if chart.lines else sum
    columns = zip(*(each.values for each in chart.series), strict=True)
    given = ([value or 0 for value in column] for column in columns)
    return [add_up(column) for column in given]


def _total(series: Series) -> float:
    return sum(value or 0 for value in series.values)


def _legend(chart: Chart) -> str:
    entries = "".join(
        f'<li><i class="swatch {each.style}"></i>{isolated(each.label)}'
        f"{'' if chart.lines else f' <b>{_text(chart.text(_total(each)))}</b>'}</li>"
        for each in chart.series
    )
    if chart.limit is not None:
        entries += f'<li><i class="swatch is-limit"></i>{_text(chart.limit_label)}</li>'
    return f'<ul class="legend">{entries}</ul>' if entries else ""


def _numbers(chart: Chart, steps: Sequence[float]) -> str:
    return "".join(f"<span>{_text(chart.text(step))}</span>" for step in reversed(steps))


def _instants(chart: Chart) -> str:
    """Name instants, each at the left of the times that it stands for."""
    return "".join(
        f'<time datetime="{_text(start)}" data-form="{_form(chart)}">'
        f"{slot_text(start, chart.per)}</time>"
        for start in chart.starts[:: label_width(len(chart.starts))]
    )


def _drawing(chart: Chart, steps: Sequence[float]) -> str:
    wide, top = _PITCH * max(1, len(chart.starts)), steps[-1]
    grid = "".join(
        f'<path class="grid" d="M0 {_HIGH - _HIGH * step / top:.2f}H{wide}"/>' for step in steps
    )
    drawn = _lines(chart, top) if chart.lines else _columns(chart, top)
    limit = (
        ""
        if chart.limit is None
        else f'<path class="limit" d="M0 {_HIGH - _HIGH * chart.limit / top:.2f}H{wide}"/>'
    )
    return (
        f'<svg viewBox="0 0 {wide} {_HIGH}" preserveAspectRatio="none" role="img" '
        f'aria-label="{_text(summary(chart))}">{grid}{drawn}{limit}</svg>'
    )


def _columns(chart: Chart, top: float) -> str:
    """Draw each series as one path of columns, upon those before it."""
    floors = [0.0] * len(chart.starts)
    parts = []
    for series in chart.series:
        path = []
        for at, value in enumerate(series.values):
            if not value:
                continue
            high = max(_HIGH * value / top, _LEAST)
            floors[at] += high
            path.append(f"M{at * _PITCH + _GAP / 2:g} {_HIGH - floors[at]:.2f}")
            path.append(f"h{_PITCH - _GAP}v{high:.2f}h-{_PITCH - _GAP}z")
        if path:
            parts.append(f'<path class="{series.style}" d="{"".join(path)}"/>')
    return "".join(parts)


def _lines(chart: Chart, top: float) -> str:
    parts = []
    for series in chart.series:
        path, is_drawn = [], False
        for at, value in enumerate(series.values):
            if value is not None:
                x, y = at * _PITCH + _PITCH / 2, _HIGH - _HIGH * value / top
                is_alone = not is_drawn and (series.values[at + 1 : at + 2] or [None]) == [None]
                if is_alone:  # a point would hardly be seen
                    path.append(f"M{x - _PITCH / 4:g} {y:.2f}h{_PITCH / 2:g}")
                else:
                    path.append(f"{'L' if is_drawn else 'M'}{x:g} {y:.2f}")
            is_drawn = value is not None
        parts.append(f'<path class="line {series.style}" d="{"".join(path)}"/>')
    return "".join(parts)


def _table(chart: Chart) -> str:
    head = "".join(f'<th class="n">{isolated(each.label)}</th>' for each in chart.series)
    rows = "".join(_row(chart, at) for at in range(len(chart.starts)))
    return (
        '<details class="as-table"><summary>As a table<b class="unseen">: '
        f"{_text(chart.title)}</b></summary>"
        f'<div class="wide" tabindex="0" role="region" aria-label="{_text(chart.title)}">'
        '<table class="list figures">'
        f"<thead><tr><th>{chart.per.capitalize()}</th>{head}</tr></thead>"
        f"<tbody>{rows}</tbody></table></div></details>"
    )


def _row(chart: Chart, at: int) -> str:
    start = chart.starts[at]
    time = (
        f'<time datetime="{_text(start)}" data-form="{_form(chart)}-exact">'
        f"{slot_title(start, chart.per)}</time>"
    )
    if chart.address:
        until = chart.starts[at + 1] if at + 1 < len(chart.starts) else chart.until
        address = chart.address.format(since=start, until=until)
        time = f'<a href="{_text(address)}">{time}</a>'
    cells = "".join(
        f'<td class="n" data-head="{_text(each.label)}">{_cell(chart, each.values[at])}</td>'
        for each in chart.series
    )
    return f"<tr><td>{time}</td>{cells}</tr>"


def _cell(chart: Chart, value: float | None) -> str:
    return NONE if not value else _text(chart.text(value))


def _text(text: str) -> str:
    return str(xhtml_escape(text))
