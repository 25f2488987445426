"""A run's visits as bars over time, with their model calls and child runs; long pauses folded."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final
from urllib.parse import urlencode
from xml.sax.saxutils import escape, quoteattr

from sleipnir.graphs.drawing.outline import TIMES
from sleipnir.graphs.drawing.text import shortened
from sleipnir.records import dataclass
from sleipnir.scheduler.store.clock import to_rfc3339
from sleipnir.worker.monitor.formats import glyph, span, word

# Longer pauses take no more room than this one.
_LONGEST_PAUSE_MS: Final = 60_000
_FOLDED_SHARE: Final = 0.04  # width of a folded pause, as a fraction of the whole
_NAMES: Final = 190
_BARS: Final = 720
_WIDTH: Final = _NAMES + _BARS + 270  # with room for what follows a bar
_ROW: Final = 22
_TOP: Final = 40
_AXIS: Final = 28  # what is above it belongs to it
_TICKS: Final = 8  # at most, if nothing is folded
_LEAST_APART: Final = 56  # px
_STEPS_MS: Final = tuple(
    unit * count
    for unit, counts in (
        (1, (1, 2, 5, 10, 20, 50, 100, 200, 500)),
        (1_000, (1, 2, 5, 10, 15, 30)),
        (60_000, (1, 2, 5, 10, 15, 30)),
        (3_600_000, (1, 2, 6, 12)),
        (86_400_000, (1, 2, 5, 10, 50, 100)),
    )
    for count in counts
)
_THIN: Final = 0.5  # narrower bars are left out
_PATTERNS: Final = (
    '<defs><pattern id="waits" class="hatched" width="6" height="6" patternUnits="userSpaceOnUse">'
    '<path d="M0 6L6 0"/></pattern>'
    '<pattern id="parked" class="dotted" width="6" height="6" patternUnits="userSpaceOnUse">'
    '<circle cx="3" cy="3" r="1.4"/></pattern>'
    '<pattern id="pauses" class="striped" width="5" height="5" patternUnits="userSpaceOnUse">'
    '<path d="M0 0V5"/></pattern></defs>'
)


@dataclass(frozen=True, slots=True)
class Stretch:
    """A stretch of time, and its place on the page."""

    begin: int  # ms
    end: int
    left: float
    width: float
    is_folded: bool


def stretches(bars: Sequence[tuple[int, int]], width: float) -> list[Stretch]:
    """Return the time from the first bar's beginning to the last one's end, left to right.

    Args:
        bars: begin and end in ms.
        width: of the whole.
    """
    busy: list[tuple[int, int]] = []
    for begin, end in sorted(bars):
        if busy and begin - busy[-1][1] <= _LONGEST_PAUSE_MS:
            busy[-1] = busy[-1][0], max(end, busy[-1][1])
        else:
            busy.append((begin, end))
    total = sum(end - begin for begin, end in busy) or 1
    folded = min(_FOLDED_SHARE, 0.5 / len(busy)) * width if busy else 0.0
    room = width - folded * (len(busy) - 1)
    found: list[Stretch] = []
    left = 0.0
    for begin, end in busy:
        if found:
            found.append(Stretch(found[-1].end, begin, left, folded, is_folded=True))
            left += folded
        share = room * (end - begin) / total
        found.append(Stretch(begin, end, left, share, is_folded=False))
        left += share
    return found


def place(at: int, found: Sequence[Stretch]) -> float:
    """Return the place of an instant."""
    for stretch in found:
        if at <= stretch.end:
            length = stretch.end - stretch.begin
            share = (at - stretch.begin) / length if length else 0.0
            return stretch.left + stretch.width * max(0.0, share)
    return found[-1].left + found[-1].width if found else 0.0


@dataclass(frozen=True, slots=True)
class TimelineLinks:
    """Where the timeline's names lead."""

    runs: str  # child runs are below it, by id
    calls: str  # with `node`, `step` and `call` as its query


def timeline_svg(rows: Sequence[Mapping[str, Any]], now_ms: int, links: TimelineLinks) -> str:
    """Return the rows of a timeline document as an SVG element."""
    if not rows:
        return ""
    bars = [_instants(row, now_ms) for row in rows]
    inside = [list(_inside(row, now_ms, links)) for row in rows]
    # Nothing works on a visit that is parked: only the ends of that are places in time.
    busy = [(begin, parked) for begin, _, parked, _ in bars] + [(end, end) for *_, end in bars]
    found = stretches([*busy, *_busy_inside(bars, inside)], _BARS)
    height = _TOP + _ROW * (len(rows) + sum(map(len, inside)))
    parts = [
        f'<svg class="timeline" viewBox="0 0 {_WIDTH} {height}" '
        f'width="{_WIDTH}" height="{height}" role="img" '
        f'aria-label="{len(rows)} visits over time">',
        _PATTERNS,
    ]
    parts += [_pause(stretch, height) for stretch in found if stretch.is_folded]
    parts += [_tick(tick, height) for tick in ticks(found)]
    y = _TOP
    for row, instants, below in zip(rows, bars, inside, strict=True):
        places = [place(instant, found) for instant in instants]
        parts.append(_bar(y, row, places, _breaks(row, instants, found)))
        for number, line in enumerate(below, 1):
            parts.append(_inside_bar(y + number * _ROW, line, found))
        y += _ROW * (1 + len(below))
    return "\n".join([*parts, "</svg>"])


@dataclass(frozen=True, slots=True)
class _Inside:
    """A model call or a child run of a visit, or how many others there are."""

    name: str
    href: str
    said: str  # after its bar
    state: str = ""
    span: tuple[int, int] | None = None  # None: there is no bar


def _inside(row: Mapping[str, Any], now_ms: int, links: TimelineLinks) -> Iterator[_Inside]:
    where = {"node": row["node"], "step": row["step"]}
    for call in row["calls"]:
        tools = ", ".join(
            f"{tool} {TIMES}{times}" if times > 1 else tool
            for tool, times in Counter(call["tools"]).items()
        )
        yield _Inside(
            f"{call['number']} {call['model']}",
            f"{links.calls}?{urlencode({**where, 'call': call['number']})}",
            f"{_outcome(call['state'])}{span(call['took_ms'] / 1000)}"
            + (f", {call['tokens']:,} tokens" if call["tokens"] else "")
            + (f", calls {tools}" if tools else ""),
            call["state"],
            (call["began_ms"], call["began_ms"] + call["took_ms"]),
        )
    if row["more_calls"]:
        yield _Inside(f"{row['more_calls']:,} more calls", f"{links.calls}?{urlencode(where)}", "")
    for child in row["children"]:
        began, took = child["began_ms"], child["took_ms"]
        end = now_ms if began is None or took is None else began + took
        yield _Inside(
            f"run {child['agent']}",
            f"{links.runs}/{child['run_id']}",
            f"{glyph(child['state'])} {word(child['state'])}"
            + ("" if took is None else f" {span(took / 1000)}"),
            child["state"],
            None if began is None else (began, max(began, end)),
        )
    if row["more_children"]:
        yield _Inside(f"{row['more_children']:,} more child runs", "children", "")


def _busy_inside(
    bars: Sequence[tuple[int, int, int, int]], inside: Sequence[Sequence[_Inside]]
) -> Iterator[tuple[int, int]]:
    """Yield the instants of calls and children within their visits: clocks differ a little."""
    for (begin, *_, end), lines in zip(bars, inside, strict=True):
        for line in lines:
            if line.span is not None:
                since, until = line.span
                yield min(max(since, begin), end), min(max(until, begin), end)


def _inside_bar(y: int, line: _Inside, found: Sequence[Stretch]) -> str:
    name = escape(shortened(line.name, 26))
    drawn, right = "", 0.0
    if line.span is not None:
        left, right = (_NAMES + place(instant, found) for instant in line.span)
        right = max(right, left + 2)
        drawn = (
            f'<rect class="inside state-{line.state}" x="{left:.1f}" y="{y + 6}" '
            f'width="{right - left:.1f}" height="{_ROW - 13}" rx="2"/>'
        )
    return (
        f"<g><title>{escape(shortened(f'{line.name}, {line.said}', 300))}</title>"
        f"<a href={quoteattr(line.href)}>"
        f'<text class="name" x="14" y="{y + 14}" font-size="11">{name}</text></a>{drawn}'
        f'<text class="what" x="{(right or _NAMES) + 6:.1f}" y="{y + 14}" font-size="11">'
        f"{escape(shortened(line.said, 60))}</text></g>"
    )


@dataclass(frozen=True, slots=True)
class AxisMark:
    """A mark of the axis."""

    at: int  # ms
    since_ms: int  # the beginning of the axis
    left: float


def ticks(found: Sequence[Stretch]) -> list[AxisMark]:
    """Return marks at round distances from the beginning, none in what is folded."""
    shown = [stretch for stretch in found if not stretch.is_folded]
    total = sum(stretch.end - stretch.begin for stretch in shown)
    step = next((each for each in _STEPS_MS if each * _TICKS >= total), _STEPS_MS[-1])
    marks: list[AxisMark] = []
    for stretch in shown:
        origin = found[0].begin
        first = -(-(stretch.begin - origin) // step) * step
        for since in range(first, stretch.end - origin + 1, step):
            left = place(origin + since, found)
            if not marks or left - marks[-1].left >= _LEAST_APART:
                marks.append(AxisMark(origin + since, since, left))
    return marks


def _tick(tick: AxisMark, height: int) -> str:
    x = _NAMES + tick.left
    return (
        f'<g class="tick"><title>{to_rfc3339(tick.at)}</title>'
        f'<path d="M{x:.1f} {_AXIS}V{height}"/>'
        f'<text class="what" x="{x:.1f}" y="{_AXIS - 4}" text-anchor="middle" font-size="10">'
        f"{escape(f'+{span(tick.since_ms / 1000)}' if tick.since_ms else '0 s')}</text></g>"
    )


def _breaks(
    row: Mapping[str, Any], instants: Sequence[int], found: Sequence[Stretch]
) -> list[tuple[float, float]]:
    """Return the places of a visit's pauses."""
    _, begin, _, end = instants
    pauses = (
        (max(begin, each["began_ms"]), min(end, each["began_ms"] + each["allowed_ms"]))
        for each in row["pauses"]
    )
    return [(place(one, found), place(other, found)) for one, other in pauses if one < other]


def _instants(row: Mapping[str, Any], now_ms: int) -> tuple[int, int, int, int]:
    """Return when its step began, it began, was parked and ended, as if it was parked only once."""
    began = row["began_ms"]
    if row["took_ms"] is None:
        end = max(began, now_ms)
        return began - row["waited_ms"], began, row["parked_since_ms"] or end, end
    end = began + row["took_ms"]
    return began - row["waited_ms"], began, end - row["parked_ms"], end


def _pause(stretch: Stretch, height: int) -> str:
    x = _NAMES + stretch.left
    took = span((stretch.end - stretch.begin) / 1000)
    return (
        f'<rect class="pause" x="{x:.1f}" y="0" width="{stretch.width:.1f}" height="{height}"/>'
        f'<text class="what" x="{x + stretch.width / 2:.1f}" y="12" text-anchor="middle" '
        f'font-size="10">{took}</text>'
    )


def _bar(
    y: int,
    row: Mapping[str, Any],
    places: Sequence[float],
    breaks: Sequence[tuple[float, float]],
) -> str:
    left, begin, parked, right = (_NAMES + each for each in places)
    items = f" {row['items']:,} items" if row["items"] else ""
    attempts = [each["attempt"] for each in row["pauses"] if each["attempt"]]
    tries = f", {attempts[-1]} attempts" if attempts else ""
    took = "" if row["took_ms"] is None else span(row["took_ms"] / 1000)
    apart = "".join(
        f", {what} {span(row[of] / 1000)}"
        for what, of in (("waited", "waited_ms"), ("parked", "parked_ms"))
        if row[of]
    )
    name = shortened(f"{row['step']} {row['node']}", 28)
    done = f"{word(row['state'])} {took}{items}{apart}{tries}"
    said = shortened(f"step {row['step']}, {row['node']}, {done}", 300)
    held = " held" if row["held_up"] else ""
    return (
        f"<g><title>{escape(said)}</title>"
        f'<text class="name" x="0" y="{y + 14}" font-size="12">{escape(name)}</text>'
        + _part("waits", y, left, begin, 'fill="url(#waits)"')
        + _part(f"bar state-{row['state']}{held}", y, begin, max(parked, begin + 2))
        + _part("parked", y, max(parked, begin + 2), right, 'fill="url(#parked)"')
        + "".join(
            _part("paused", y, _NAMES + one, _NAMES + other, 'fill="url(#pauses)"')
            for one, other in breaks
        )
        + f'<text class="what" x="{right + 6:.1f}" y="{y + 14}" font-size="11">'
        f"{escape(_outcome(row['state']) + took + items + tries)}</text></g>"
    )


def _outcome(state: str) -> str:
    """Return the state before what follows a bar, if it is not what everybody expects."""
    return "" if state == "done" else f"{glyph(state)} {word(state)} "


def _part(classes: str, y: int, left: float, right: float, more: str = "") -> str:
    if right - left < _THIN:
        return ""
    return (
        f'<rect class="{classes}" x="{left:.1f}" y="{y + 3}" width="{right - left:.1f}" '
        f'height="{_ROW - 7}" rx="2" {more}/>'
    )
