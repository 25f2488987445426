"""A graph as SVG inside a web page, with the page's colours and a link for each node.

Every box has room for a line of state, so that the layout is the same for all runs of an agent and
is computed only once.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, replace
from itertools import pairwise
from math import hypot
from typing import Any, Final, Literal, TypeAlias
from xml.sax.saxutils import escape, quoteattr

from sleipnir.graphs.drawing import icons
from sleipnir.graphs.drawing.layout import (
    LABEL_PADDING,
    OPTIONS,
    Framed,
    Measured,
    Picture,
    Placed,
    PlacedArrow,
    Point,
    Sizing,
    place,
)
from sleipnir.graphs.drawing.native import Native
from sleipnir.graphs.drawing.outline import TIMES, Arrow, Box, Outline, Route
from sleipnir.graphs.drawing.svg import MARGIN, bent_path, px, size_of
from sleipnir.graphs.drawing.text import LABEL, Style, in_one_line, shortened, width_of
from sleipnir.records import dataclass

Direction: TypeAlias = Literal["lr", "tb"]  # left to right, or top to bottom

NAME: Final = Style(13, bold=True)
_HEIGHT: Final = 44.0
_LINE: Final = 16.0  # of a second line of the name
_LEAST_WIDTH: Final = 152.0
_LEAST_OF_MAPS: Final = 176.0  # whose line of state counts items
_MOST_WIDTH: Final = 220.0
_TEXT_AT: Final = 36.0  # beside the icon
_ASIDE: Final = 12.0  # right of the text
_STATE_LENGTH: Final = 19
_LABEL_LENGTH: Final = 24  # as labels keep boxes apart
_FEWEST_IN_A_ROW: Final = 4  # that are one block from afar
_COUNT_WIDTH: Final = 30.0
_GAPS: Final[Mapping[Direction, Mapping[str, Any]]] = {
    "lr": {"direction": "leftright", "spacing": {"layer_gap": 40.0, "node_gap": 22.0}},
    "tb": {"direction": "topbottom", "spacing": {"layer_gap": 40.0, "node_gap": 26.0}},
}


@dataclass(frozen=True, slots=True)
class NodeMark:
    """What to show on a node."""

    state: str  # becomes the class `is-<state>`
    text: str = ""  # the line of state
    href: str = ""  # link target
    data: Mapping[str, str] = field(default_factory=dict)  # for scripts of the page
    visits: int = 0  # from two on, they are counted at the corner
    ring: Ring | None = None


@dataclass(frozen=True, slots=True)
class Ring:
    """Progress of a node that has parts, as a ring around its sign."""

    share: float  # 0 to 1
    text: str  # the share in words
    href: str  # link target


_UNTOUCHED: Final = NodeMark("untouched")


def lay_out(outline: Outline, native: Native, direction: Direction = "lr") -> Picture:
    """Compute the layout, which takes a tenth of a second for 200 nodes."""
    gaps = _GAPS[direction]
    options = {**OPTIONS, **gaps, "spacing": {**OPTIONS["spacing"], **gaps["spacing"]}}
    arrows = tuple(map(_with_short_label, outline.arrows))
    sizing = Sizing(_measured, _room_of, options)
    return place(replace(outline, arrows=arrows), native, sizing)


def _with_short_label(arrow: Arrow) -> Arrow:
    label = shortened(arrow.label, _LABEL_LENGTH)
    whole = arrow.title or arrow.label
    return replace(arrow, label=label, title="" if label == whole else whole)


def _room_of(arrow: Arrow) -> float:
    """Return the width that the layout keeps for a label, with how often its route was taken."""
    return width_of(arrow.label, LABEL) + LABEL_PADDING + _COUNT_WIDTH


def _measured(box: Box) -> Measured:
    """Return the name in one line, or in two if it is long, and the size of its box."""
    room = _MOST_WIDTH - _TEXT_AT - _ASIDE
    lines = _lines(in_one_line(box.id), room)
    least = _LEAST_OF_MAPS if box.type in ("map", "row") else _LEAST_WIDTH
    width = max(width_of(line, NAME) for line in lines) + _TEXT_AT + _ASIDE
    height = _HEIGHT + (len(lines) - 1) * _LINE
    return Measured(lines, min(max(width, least), _MOST_WIDTH), height)


def _lines(name: str, room: float) -> tuple[str, ...]:
    """Break a name where words end; what does not fit into two lines is cut in its middle."""
    if width_of(name, NAME) <= room:
        return (name,)
    fitting = _fitting(name, room)
    breaks = [at + 1 for at in range(fitting // 2, fitting) if name[at] in "_-.:/ "]
    at = breaks[-1] if breaks else fitting
    rest = name[at:]
    limit = len(rest)
    while width_of(shortened(rest, limit), NAME) > room:
        limit -= 1
    return name[:at], shortened(rest, limit)


def _fitting(name: str, room: float) -> int:
    """Return how many of the first characters fit."""
    count = len(name)
    while width_of(name[:count], NAME) > room:
        count -= 1
    return count


def to_page_svg(
    picture: Picture,
    title: str,
    marks: Mapping[str, NodeMark],
    taken: Mapping[Route, int] | None = None,
    notes: Mapping[Route, str] | None = None,
) -> str:
    """Return the drawing as an SVG element without colours, which the page's style sheet has.

    Args:
        title: for screen readers.
        marks: by node; nodes without one count as untouched.
        taken: how often the edge between two nodes was taken.
        notes: what its label says of that, in place of the number.
    """
    left, top = picture.bounds[:2]
    width, height = size_of(picture)
    view = " ".join(map(px, (left - MARGIN, top - MARGIN, width, height)))
    numbers = {placed.box.id: number for number, placed in enumerate(picture.boxes)}
    parts = [
        f'<svg class="graph" viewBox="{view}" data-whole="{view}" width="{px(width)}" '
        f'height="{px(height)}" role="group" aria-label={_quoted(title)} '
        f'data-rows="{json.dumps(_rows(picture, numbers), separators=(",", ":"))}">',
        *_definitions(picture),
        *map(_frame, picture.frames),
        *(_arrow(route, numbers, taken or {}) for route in picture.routes),
        *(
            f'<circle class="start" cx="{px(dot.x)}" cy="{px(dot.y)}" r="6"/>'
            for dot in picture.dots
        ),
        *(_label(route, *_counted(route, taken or {}, notes)) for route in picture.routes),
        *(
            _node(number, placed, marks.get(placed.box.id, _UNTOUCHED))
            for number, placed in enumerate(picture.boxes)
        ),
        "</svg>",
    ]
    return "\n".join(parts)


def _rows(picture: Picture, numbers: Mapping[str, int]) -> list[list[int]]:
    """Return the boxes that follow each other in a line and without other arrows between them.

    Of each row the number of its first box, then by how much each is more than the one before it:
    most are one more, which takes next to nothing once it is compressed.
    """
    leaving, entering = Counter[str](), Counter[str]()
    for route in picture.routes:
        leaving[route.source] += 1
        entering[route.target] += 1
    places = {placed.box.id: placed for placed in picture.boxes}
    follows = {
        route.source: route.target
        for route in picture.routes
        if route.source in places
        and leaving[route.source] == entering[route.target] == 1
        and _in_line(places[route.source], places[route.target])
    }
    rows = []
    for first in follows.keys() - set(follows.values()):
        row = [first]
        while row[-1] in follows:
            row.append(follows[row[-1]])
        if len(row) >= _FEWEST_IN_A_ROW:
            rows.append([numbers[node] for node in row])
    return [[row[0], *(after - one for one, after in pairwise(row))] for row in sorted(rows)]


def _in_line(one: Placed, other: Placed) -> bool:
    """Whether two boxes have their middles at one height, or one above the other."""
    across = abs(one.y + one.height / 2 - other.y - other.height / 2)
    along = abs(one.x + one.width / 2 - other.x - other.width / 2)
    return min(across, along) < 1


def _definitions(picture: Picture) -> Iterator[str]:
    """Yield what boxes have in common, so that it is said only once."""
    yield (
        '<defs><marker id="tip" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="8" '
        'markerHeight="8" markerUnits="userSpaceOnUse" orient="auto">'
        '<path class="tip" d="M0 1 10 5 0 9z"/></marker>'
        '<pattern id="hatch" width="6" height="6" patternUnits="userSpaceOnUse" '
        'patternTransform="rotate(45)"><rect class="hatched" width="6" height="6"/>'
        '<path class="hatching" d="M0 0V6"/></pattern>'
    )
    for height in sorted({placed.height for placed in picture.boxes}):
        # The left end of a box, 4 wide, with its round corners.
        yield (
            f'<path id="side-{px(height)}" d="M4 1.07A8 8 0 0 0 0 8V{px(height - 8)}'
            f'A8 8 0 0 0 4 {height - 1.07:.2f}z"/>'
        )
    for node_type in sorted({placed.box.type for placed in picture.boxes}):
        yield f'<g id="sign-{node_type}">{icons.icon_of(node_type)}</g>'
    yield "</defs>"


def _frame(frame: Framed) -> str:
    return (
        f'<g class="frame"><rect x="{px(frame.x)}" y="{px(frame.y)}" width="{px(frame.width)}" '
        f'height="{px(frame.height)}" rx="8"/><text class="what" x="{px(frame.x + 10)}" '
        f'y="{px(frame.y + 15)}" font-size="{LABEL.size:g}">{escape(frame.name)}</text></g>'
    )


def _arrow(route: PlacedArrow, numbers: Mapping[str, int], taken: Mapping[Route, int]) -> str:
    count = taken.get((route.source, route.target), 0)
    # Nine times, 99 times, 999 times: one step wider each.
    width = f" is-taken wide-{min(len(str(count)), 4)}" if count else ""
    ends = f"{numbers.get(route.source, '')} {numbers[route.target]}"
    return (
        f'<path class="arrow arrow-{route.kind}{width}" data-ends="{ends}" '
        f'data-taken="{count}" d="{bent_path(route.points)}" marker-end="url(#tip)"/>'
    )


def _node(number: int, placed: Placed, mark: NodeMark) -> str:
    width, height = px(placed.width), px(placed.height)
    state = shortened(mark.text, _STATE_LENGTH)
    badge, times = _badge(placed, mark)
    # A blank between the lines, so that screen readers separate the words.
    name = " ".join(
        f'<tspan class="name" x="{px(_TEXT_AT)}" y="{px(18 + line * _LINE)}">{escape(text)}</tspan>'
        for line, text in enumerate(placed.texts)
    )
    return (
        # Links are named by their texts: what is told when the pointer rests is not of the link.
        f'<g transform="translate({px(placed.x)} {px(placed.y)})">'
        f"<title>{escape(_title(placed.box))}</title>"
        f'<a id="n-{number}" class="node type-{placed.box.type} is-{mark.state}" '
        f"data-node={_quoted(placed.box.id)}{_data(mark)} href={_quoted(mark.href)}>"
        f'<rect class="shape" width="{width}" height="{height}" rx="8"/>'
        f'<use class="side" href="#side-{height}"/>'
        f'<use class="sign" href="#sign-{placed.box.type}" x="12" y="{px(placed.height / 2 - 8)}"/>'
        f'{badge}<text>{name} <tspan class="now" x="{px(_TEXT_AT)}" '
        f'y="{px(placed.height - 10)}">{escape(state)}</tspan>{times}</text>'
        f"</a>{_ring(placed, mark)}</g>"
    )


def _title(box: Box) -> str:
    """Return what is said of a box when the pointer rests on it: all that it has no room for."""
    return f"{shortened(box.id, 200)} ({box.caption})"


def _data(mark: NodeMark) -> str:
    return "".join(f" data-{name}={_quoted(value)}" for name, value in mark.data.items())


def _badge(placed: Placed, mark: NodeMark) -> tuple[str, str]:
    """Return how often a node was visited: the ground, and the text, which is read out with it."""
    if mark.visits < 2:
        return "", ""
    text = f"{TIMES}{mark.visits:,}"
    width = 10 + 7 * len(text)
    left = placed.width - width + 6
    return (
        f'<rect class="badge" x="{px(left)}" y="-9" width="{width}" height="18" rx="9"/>',
        f' <tspan class="times" x="{px(left + width / 2)}" y="4">{text}</tspan>',
    )


def _ring(placed: Placed, mark: NodeMark) -> str:
    if mark.ring is None:
        return ""
    y = px(placed.height / 2)
    circle = f'cx="20" cy="{y}" r="12"'
    return (
        f'<a class="ring is-{mark.state}" data-ring={_quoted(placed.box.id)} '
        f"href={_quoted(mark.ring.href)} aria-label={_quoted(mark.ring.text)}>"
        f'<title>{escape(mark.ring.text)}</title><circle class="ground" {circle}/>'
        f'<circle class="share" {circle} pathLength="100" '
        f'stroke-dasharray="{100 * mark.ring.share:.0f} 100" transform="rotate(-90 20 {y})"/></a>'
    )


def _counted(
    route: PlacedArrow, taken: Mapping[Route, int], notes: Mapping[Route, str] | None
) -> tuple[str, str]:
    """Return what a label says of how often a route was taken, and the same for a tooltip."""
    ends = route.source, route.target
    if route.kind == "each":
        return "", ""
    if notes is not None:
        note = notes.get(ends, "")
        return note, f"taken in {note} of runs" if note else ""
    count = taken.get(ends, 0)
    return (f"{TIMES}{count:,}", "") if count > 1 else ("", "")


def _label(route: PlacedArrow, note: str, more: str) -> str:
    """Return a label; drawn above all lines, so that none crosses a word."""
    text = f"{route.label} {note}".strip()
    if not text:
        return ""
    at, width = route.anchor or _middle(route.points), width_of(text, LABEL) + LABEL_PADDING
    whole = f"{route.title} {more}".strip()
    title = f"<title>{escape(whole)}</title>" if more or route.title != route.label else ""
    return (
        f'<rect class="chip" x="{px(at.x - width / 2)}" y="{px(at.y - 8)}" '
        f'width="{px(width)}" height="16" rx="8"/>'
        f'<text class="label" x="{px(at.x)}" y="{px(at.y + 4)}" text-anchor="middle">'
        f"{title}{escape(text)}</text>"
    )


def _middle(points: Sequence[Point]) -> Point:
    """Return the middle of a line's longest part."""
    parts = pairwise(points)
    one, other = max(parts, key=lambda part: hypot(part[0].x - part[1].x, part[0].y - part[1].y))
    return Point((one.x + other.x) / 2, (one.y + other.y) / 2)


def _quoted(text: str) -> str:
    """Quote an attribute; XML allows no control characters, not even escaped."""
    return quoteattr("".join(char if char.isprintable() else " " for char in text))
