"""A run's visits as lines of bars over time, with their model calls, tools and child runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, replace
from math import inf
from typing import Any, Final
from urllib.parse import urlencode

from sleipnir.graphs.drawing.outline import TIMES
from sleipnir.records import dataclass
from sleipnir.worker.monitor.charts.axis import Axis, Span, axis_of
from sleipnir.worker.monitor.formats import glyph, span, word

# So many visits of a node stand in one line that can be opened.
_LEAST_FOLDED: Final = 4
ENDED_BADLY: Final = frozenset({"failed", "tolerated", "timed_out", "interrupted", "cancelled"})


@dataclass(frozen=True, slots=True)
class Bar:
    """A stretch of time on a line, and what it was spent on."""

    kind: str  # a class of styles
    begin: int  # ms
    end: int


@dataclass(frozen=True, slots=True)
class Lane:
    """A visit, a call, a child run, or several of them on one line."""

    name: str
    href: str
    said: str  # after the last bar
    told: str  # all that is known, when the line is pointed at
    bars: Sequence[Bar] = ()
    state: str = ""
    is_held: bool = False  # on the critical path
    kind: str = ""  # the node's type
    inside: Sequence[Lane] = field(default_factory=tuple)
    is_folded: bool = False  # what is inside is shown when the line is opened
    child: str = ""  # the child run, if its visits can be shown inside
    is_open: bool = False  # whether they are

    @property
    def spans(self) -> Iterator[Span]:
        """The times that the axis has to show; of a rest, its ends."""
        for bar in self.bars:
            if bar.kind in ("parked", "paused"):
                yield bar.begin, bar.begin
                yield bar.end, bar.end
            else:
                yield bar.begin, bar.end


@dataclass(frozen=True, slots=True)
class TimelineLinks:
    """Where the timeline's names lead."""

    runs: str  # child runs are below it, by id
    run: str  # the run itself

    def visit(self, row: Mapping[str, Any]) -> str:
        """Return the address of a visit's node, as it was then."""
        query = {"node": row["node"]}
        return f"{self.run}/graph?{urlencode(query)}"

    def calls(self, row: Mapping[str, Any], call: int | None = None) -> str:
        """Return the address of a visit's model calls, or of one of them."""
        query = {"node": row["node"], "step": row["step"]}
        return f"{self.run}/model?{urlencode(query if call is None else {**query, 'call': call})}"


@dataclass(frozen=True, slots=True)
class Timeline:
    """Lines on an axis."""

    lines: Sequence[Lane]
    axis: Axis
    all_lines: Sequence[Lane]  # also those that the window leaves out
    whole: Axis  # without the window


def timeline_of(lines: Sequence[Lane], window: Span | None) -> Timeline | None:
    """Lay lines out on an axis; None if there are none.

    Args:
        window: only this part of the time, ms since the first line's beginning.
    """
    spans = list(_spans(lines))
    whole, axis = axis_of(spans), axis_of(spans, window)
    if whole is None or axis is None:
        return None
    shown = [line for line in lines if any(axis.shows(each) for each in _spans([line]))]
    return Timeline(shown, axis, lines, whole)


def _spans(lines: Sequence[Lane]) -> Iterator[Span]:
    """Yield the times of lines; those inside a line are kept within it: clocks differ a little."""
    for line in lines:
        own = list(line.spans)
        yield from own
        if not own:
            continue
        first, last = min(begin for begin, _ in own), max(end for _, end in own)
        for begin, end in _spans(line.inside):
            yield min(max(begin, first), last), min(max(end, first), last)


def visit_lines(
    rows: Sequence[Mapping[str, Any]],
    now_ms: int,
    links: TimelineLinks,
    types: Mapping[str, str],
) -> list[Lane]:
    """Return a line per visit; many visits of a node share one.

    Args:
        rows: of a timeline document.
        types: of nodes, by name.
    """
    times = Counter(row["node"] for row in rows)
    folded: set[str] = set()
    lines: list[Lane] = []
    for row in rows:
        node = row["node"]
        if times[node] < _LEAST_FOLDED:
            lines.append(_visit_line(row, now_ms, links, types))
        elif node not in folded:
            folded.add(node)
            same = [each for each in rows if each["node"] == node]
            lines.append(_folded(node, [_visit_line(e, now_ms, links, types) for e in same]))
    return lines


def node_lines(
    rows: Sequence[Mapping[str, Any]],
    now_ms: int,
    links: TimelineLinks,
    types: Mapping[str, str],
) -> list[Lane]:
    """Return a line per node, with all of its visits."""
    by_node: dict[str, list[Lane]] = {}
    for row in rows:
        by_node.setdefault(row["node"], []).append(_visit_line(row, now_ms, links, types))
    return [
        _folded(node, same) if len(same) > 1 else replace(same[0], name=node)
        for node, same in by_node.items()
    ]


def _folded(node: str, lines: Sequence[Lane]) -> Lane:
    bars = [bar for line in lines for bar in line.bars]
    worked = sum(bar.end - bar.begin for bar in bars if bar.kind.startswith("work"))
    failed = sum(line.state in ENDED_BADLY for line in lines)
    said = span(worked / 1000) + (f", {glyph('failed')} {failed:,}" if failed else "")
    return Lane(
        name=f"{node} {TIMES}{len(lines):,}",
        href=lines[0].href,
        said=said,
        told=f"{node}, {len(lines):,} visits, worked {said}",
        bars=bars,
        state=lines[-1].state,
        is_held=any(line.is_held for line in lines),
        kind=lines[0].kind,
        inside=lines,
        is_folded=True,
    )


def _visit_line(
    row: Mapping[str, Any], now_ms: int, links: TimelineLinks, types: Mapping[str, str]
) -> Lane:
    attempts = [each["attempt"] for each in row["pauses"] if each["attempt"]]
    took = "" if row["took_ms"] is None else span(row["took_ms"] / 1000)
    more = f" {row['items']:,} items" if row["items"] else ""
    more += f", {attempts[-1]} attempts" if attempts else ""
    apart = "".join(
        f", {what} {span(row[of] / 1000)}"
        for what, of in (("waited", "waited_ms"), ("parked", "parked_ms"))
        if row[of]
    )
    kind = types.get(row["node"], "")
    return Lane(
        name=f"{row['step']} {row['node']}",
        href=links.visit(row),
        said=f"{_outcome(row['state'])}{took}{more}",
        told=f"step {row['step']}, {row['node']}, {word(row['state'])} {took}{more}{apart}",
        bars=list(_bars(row, now_ms, kind)),
        state=row["state"],
        is_held=row["held_up"],
        kind=kind,
        inside=list(_inside(row, now_ms, links)),
    )


def _bars(row: Mapping[str, Any], now_ms: int, kind: str) -> Iterator[Bar]:
    """Yield what a visit's time was spent on.

    Besides its pauses before further attempts, it is shown as parked only once, before its end.
    """
    began = row["began_ms"]
    took = row["took_ms"]
    end = max(began, now_ms) if took is None else began + took
    work = f"work type-{kind}" if kind else "work"
    if row["waited_ms"]:
        yield Bar("waits", began - row["waited_ms"], began)
    at, left = began, row["parked_ms"]
    for pause in row["pauses"]:
        since = min(end, max(at, pause["began_ms"]))
        until = min(end, since + pause["allowed_ms"])
        if until > since:
            yield Bar(work, at, since)
            yield Bar("paused", since, until)
            at, left = until, left - (until - since)
    parked = min(end, row["parked_since_ms"] or end) if took is None else end - max(0, left)
    yield Bar(work, at, max(at, parked))
    if end > max(at, parked):
        yield Bar("parked", max(at, parked), end)
    if row["state"] in ENDED_BADLY:
        yield Bar("end", end, end)


def _inside(row: Mapping[str, Any], now_ms: int, links: TimelineLinks) -> Iterator[Lane]:
    calls = row["calls"]
    for number, call in enumerate(calls, 1):
        following = calls[number] if number < len(calls) else None
        yield _call_line(row, call, following, links)
    if row["more_calls"]:
        yield more_line(f"{row['more_calls']:,} more calls", links.calls(row))
    for child in row["children"]:
        yield _child_line(child, now_ms, links)
    if row["more_children"]:
        yield more_line(f"{row['more_children']:,} more child runs", f"{links.run}/children")


def more_line(name: str, href: str) -> Lane:
    """Return the line that leads to what is left out."""
    return Lane(name, href, "", name)


def _call_line(
    row: Mapping[str, Any],
    call: Mapping[str, Any],
    following: Mapping[str, Any] | None,
    links: TimelineLinks,
) -> Lane:
    tools = ", ".join(
        f"{tool} {TIMES}{times}" if times > 1 else tool
        for tool, times in Counter(call["tools"]).items()
    )
    end = call["began_ms"] + call["took_ms"]
    bars = [Bar(f"call state-{call['state']}", call["began_ms"], end)]
    if tools and following is not None and following["began_ms"] > end:
        bars.append(Bar("tools", end, following["began_ms"]))
    said = f"{_outcome(call['state'])}{span(call['took_ms'] / 1000)}"
    said += f", {call['tokens']:,} tokens" if call["tokens"] else ""
    said += f", calls {tools}" if tools else ""
    name = f"{call['number']} {call['model']}"
    href = links.calls(row, call["number"])
    return Lane(name, href, said, f"{name}, {said}", bars, call["state"])


def _child_line(child: Mapping[str, Any], now_ms: int, links: TimelineLinks) -> Lane:
    began, took = child["began_ms"], child["took_ms"]
    said = f"{glyph(child['state'])} {word(child['state'])}"
    said += "" if took is None else f" {span(took / 1000)}"
    end = now_ms if began is None or took is None else began + took
    bars = () if began is None else [Bar(f"run state-{child['state']}", began, max(began, end))]
    name = f"run {child['agent']}"
    href = f"{links.runs}/{child['run_id']}"
    return Lane(
        name,
        href,
        said,
        f"{name}, {said}",
        bars,
        child["state"],
        child="" if began is None else child["run_id"],
    )


def run_lines(tree: Sequence[Mapping[str, Any]], now_ms: int, links: TimelineLinks) -> list[Lane]:
    """Return a line per child run of a children document, with those below it inside."""

    def line(run: Mapping[str, Any]) -> Lane:
        one = _child_line({**run, "state": run["status"]}, now_ms, links)
        inside = sorted(map(line, run["children"]), key=_beginning)
        return replace(one, name=run["agent"], inside=inside, child="")

    return sorted(map(line, tree), key=_beginning)


def _beginning(line: Lane) -> float:
    return min((bar.begin for bar in line.bars), default=inf)


def _outcome(state: str) -> str:
    """Return the state before what follows a bar, if it is not what everybody expects."""
    return "" if state == "done" else f"{glyph(state)} {word(state)} "
