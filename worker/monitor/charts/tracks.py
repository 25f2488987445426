"""Draws the lines of a timeline: each a strip of SVG as wide as the page, in percent."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Final
from xml.sax.saxutils import escape

from sleipnir.graphs.drawing.text import shortened
from sleipnir.scheduler.store.clock import to_rfc3339
from sleipnir.worker.monitor.charts.axis import Axis
from sleipnir.worker.monitor.charts.timeline import ENDED_BADLY, Bar, Lane, Timeline
from sleipnir.worker.monitor.formats import span

_HIGH: Final = 24  # px, of a line
_ROOM: Final = 62.0  # percent; what is said of bars that end beyond it stands before them
_WIDE: Final = 25.0  # percent; bars that have room for a text
_LEAST: Final = 0.15  # percent; what is narrower could not be seen
_MINIMAP: Final = 36  # px
_MOST_SAID: Final = 70  # characters
PATTERNS: Final = (
    '<svg class="patterns" width="0" height="0" aria-hidden="true"><defs>'
    '<pattern id="waits" width="6" height="6" patternUnits="userSpaceOnUse">'
    '<path class="hatch" d="M0 6L6 0"/></pattern>'
    '<pattern id="parked" width="6" height="6" patternUnits="userSpaceOnUse">'
    '<circle class="dot" cx="3" cy="3" r="1.4"/></pattern>'
    '<pattern id="pauses" width="5" height="5" patternUnits="userSpaceOnUse">'
    '<path class="stripe" d="M0 0V5"/></pattern></defs></svg>'
)
_FILLS: Final = {"waits": "waits", "parked": "parked", "paused": "pauses"}


def track_svg(line: Lane, axis: Axis) -> str:
    """Return a line's bars, and what is said of them."""
    shown = [bar for bar in line.bars if axis.shows((bar.begin, bar.end))]
    parts = [_bar(bar, axis, is_held=line.is_held) for bar in shown]
    parts.append(_said(line, shown, axis))
    return (
        f'<svg class="track" width="100%" height="{_HIGH}">'
        f"<title>{escape(shortened(line.told, 300))}</title>{''.join(parts)}</svg>"
    )


def _said(line: Lane, shown: Sequence[Bar], axis: Axis) -> str:
    """Return the text beside a line's bars, or upon its longest one if there is no room."""
    left = min((axis.place(bar.begin) for bar in shown), default=0.0)
    right = max((axis.place(bar.end) for bar in shown), default=0.0)
    said = escape(shortened(line.said, _MOST_SAID))
    badly = " is-bad" if line.state in ENDED_BADLY else ""
    if right <= _ROOM:
        return f'<text class="said{badly}" x="{right:.2f}%" dx="8" y="16">{said}</text>'
    if left >= 100 - _ROOM:
        return (
            f'<text class="said{badly}" x="{left:.2f}%" dx="-8" y="16" text-anchor="end">'
            f"{said}</text>"
        )
    solid = [bar for bar in shown if bar.kind.startswith(("work", "run"))]
    widest = max(solid, key=lambda bar: axis.place(bar.end) - axis.place(bar.begin), default=None)
    if widest is not None and axis.place(widest.end) - axis.place(widest.begin) >= _WIDE:
        begin = axis.place(widest.begin)
        return f'<text class="upon" x="{begin:.2f}%" dx="8" y="16">{said}</text>'
    return f'<text class="over{badly}" x="{left:.2f}%" dx="8" y="16">{said}</text>'


def _bar(bar: Bar, axis: Axis, *, is_held: bool) -> str:
    left, right = axis.place(bar.begin), axis.place(bar.end)
    if bar.kind == "end":
        shape = 'y="3" width="4" height="18" rx="1" transform="translate(-3 0)"'
        return f'<rect class="end" x="{right:.2f}%" {shape}/>'
    width = max(right - left, _LEAST)
    pattern = _FILLS.get(bar.kind)
    fill = f' fill="url(#{pattern})"' if pattern else ""
    held = " held" if is_held and bar.kind.startswith("work") else ""
    top, high = (8, 8) if bar.kind.startswith(("call", "tools")) else (5, 14)
    return (
        f'<rect class="{bar.kind}{held}" x="{left:.2f}%" y="{top}" width="{width:.2f}%" '
        f'height="{high}" rx="2"{fill}/>'
    )


def axis_svg(timeline: Timeline) -> str:
    """Return the marks of the axis, and the pauses that are folded."""
    folded = "".join(
        f'<text class="fold" x="{each.left + each.width / 2:.2f}%" y="11" text-anchor="middle">'
        f"{span((each.end - each.begin) / 1000)}</text>"
        for each in timeline.axis.stretches
        if each.is_folded
    )
    marks = "".join(
        f'<g><title>{to_rfc3339(mark.at)}</title><text x="{mark.left:.2f}%" y="24" dx="3">'
        f"{f'+{span(mark.since_ms / 1000)}' if mark.since_ms else '0 s'}</text></g>"
        for mark in timeline.axis.marks()
    )
    return f'<svg class="axis" width="100%" height="30" aria-hidden="true">{folded}{marks}</svg>'


def grid_svg(timeline: Timeline) -> str:
    """Return the lines of the axis through all rows, and bands where pauses are folded."""
    bands = "".join(
        f'<rect class="pause" x="{each.left:.2f}%" y="0" width="{each.width:.2f}%" height="100%"/>'
        for each in timeline.axis.stretches
        if each.is_folded
    )
    lines = "".join(
        f'<line x1="{mark.left:.2f}%" x2="{mark.left:.2f}%" y1="0" y2="100%"/>'
        for mark in timeline.axis.marks()
    )
    return f'<svg class="grid" width="100%" height="100%" aria-hidden="true">{bands}{lines}</svg>'


def minimap_svg(timeline: Timeline) -> str:
    """Return all lines of the whole time, each a pixel or less high, with what is shown of it."""
    high = _MINIMAP / max(1, len(timeline.all_lines))
    whole = timeline.whole
    parts = [
        f'<rect class="{bar.kind}" x="{whole.place(bar.begin):.2f}%" y="{number * high:.2f}" '
        f'width="{max(whole.place(bar.end) - whole.place(bar.begin), _LEAST):.2f}%" '
        f'height="{max(high, 1):.2f}"/>'
        for number, line in enumerate(timeline.all_lines)
        for bar in line.bars
        if bar.kind.startswith("work")
    ]
    first, last = timeline.axis.stretches[0], timeline.axis.stretches[-1]
    left, right = whole.place(first.begin), whole.place(last.end)
    here = f'<rect class="here" x="{left:.2f}%" y="0" width="{right - left:.2f}%" height="100%"/>'
    return (
        f'<svg class="overview" width="100%" height="{_MINIMAP}" role="img" '
        f'aria-label="{len(timeline.all_lines):,} lines">{"".join(parts)}{here}</svg>'
    )


def stretches_json(axis: Axis) -> str:
    """Return where instants are, for scripts: begin and end since the origin, left and width."""
    found: Sequence[Sequence[float]] = [
        [
            each.begin - axis.origin,
            each.end - axis.origin,
            round(each.left, 3),
            round(each.width, 3),
        ]
        for each in axis.stretches
    ]
    return json.dumps(found, separators=(",", ":"))
