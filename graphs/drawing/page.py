"""A graph as SVG inside a web page, with the page's colours and a link for each node.

Every box has room for a line of state, so that the layout is the same for all runs of an agent and
is computed only once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from itertools import pairwise
from math import hypot
from typing import Final
from xml.sax.saxutils import escape, quoteattr

from sleipnir.graphs.drawing.layout import (
    BOX_HEIGHT,
    LABEL_PADDING,
    PADDING,
    Framed,
    Picture,
    Placed,
    PlacedArrow,
    Point,
    place,
)
from sleipnir.graphs.drawing.native import Native
from sleipnir.graphs.drawing.outline import TIMES, Outline
from sleipnir.graphs.drawing.svg import MARGIN, bent_path, px, shape_of, size_of, title_of
from sleipnir.graphs.drawing.text import BODY, LABEL, SMALL, shortened, width_of
from sleipnir.records import dataclass

_LINE_HEIGHT: Final = 16.0
# The line of state fits every box: it is not known when these are laid out.
_LONGEST_STATE: Final = "✕ failed, continued ×999"  # noqa: RUF001 - as on pages
_LEAST_WIDTH: Final = width_of(_LONGEST_STATE, SMALL) + PADDING
_RING: Final = 9  # radius


@dataclass(frozen=True, slots=True)
class NodeMark:
    """What to show on a node."""

    state: str  # becomes the class `is-<state>`
    text: str = ""  # the line of state
    href: str = ""  # link target
    data: Mapping[str, str] = field(default_factory=dict)  # for scripts of the page
    ring: Ring | None = None


@dataclass(frozen=True, slots=True)
class Ring:
    """Progress of a node that has parts, as a ring at its corner."""

    share: float  # 0 to 1
    text: str  # the share in words
    href: str  # link target


_UNTOUCHED: Final = NodeMark("untouched")


def lay_out(outline: Outline, native: Native) -> Picture:
    """Compute the layout, which takes a tenth of a second for 200 nodes."""
    return place(outline, native, BOX_HEIGHT + _LINE_HEIGHT, _LEAST_WIDTH)


def to_page_svg(
    picture: Picture,
    title: str,
    marks: Mapping[str, NodeMark],
    taken: Mapping[tuple[str, str], int] | None = None,
) -> str:
    """Return the drawing as an SVG element without colours, which the page's style sheet has.

    Args:
        title: for screen readers.
        marks: by node; nodes without one count as untouched.
        taken: how often the edge between two nodes was taken.
    """
    left, top = picture.bounds[:2]
    width, height = size_of(picture)
    view = " ".join(map(px, (left - MARGIN, top - MARGIN, width, height)))
    parts = [
        f'<svg class="graph" viewBox="{view}" data-whole="{view}" width="{px(width)}" '
        f'height="{px(height)}" role="group" aria-label={_quoted(title)}>',
        '<defs><marker id="tip" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="9" '
        'markerHeight="9" markerUnits="userSpaceOnUse" orient="auto">'
        '<path class="tip" d="M0 1 10 5 0 9z"/></marker></defs>',
        *map(_frame, picture.frames),
        *(_arrow(route, taken or {}) for route in picture.routes),
        *(
            f'<circle class="start" cx="{px(dot.x)}" cy="{px(dot.y)}" r="6"/>'
            for dot in picture.dots
        ),
        *(
            _node(number, placed, marks.get(placed.box.id, _UNTOUCHED))
            for number, placed in enumerate(picture.boxes)
        ),
        *(_label(route, taken or {}) for route in picture.routes),
        "</svg>",
    ]
    return "\n".join(parts)


def _frame(frame: Framed) -> str:
    return (
        f'<g class="frame"><rect x="{px(frame.x)}" y="{px(frame.y)}" width="{px(frame.width)}" '
        f'height="{px(frame.height)}" rx="8"/><text class="what" x="{px(frame.x + 10)}" '
        f'y="{px(frame.y + 15)}" font-size="{LABEL.size:g}">{escape(frame.name)}</text></g>'
    )


def _arrow(route: PlacedArrow, taken: Mapping[tuple[str, str], int]) -> str:
    count = taken.get((route.source, route.target), 0)
    return (
        f'<path class="arrow arrow-{route.kind}{" is-taken" if count else ""}" '
        f'data-taken="{count}" d="{bent_path(route.points)}" marker-end="url(#tip)"/>'
    )


def _node(number: int, placed: Placed, mark: NodeMark) -> str:
    box, middle = placed.box, placed.x + placed.width / 2
    baseline = placed.y + (24 if box.type in ("map", "rag", "row") else 22)
    lines = (
        (BODY.size, "name", placed.name),
        (SMALL.size, "what", placed.caption),
        (SMALL.size, "now", shortened(mark.text, len(_LONGEST_STATE))),
    )
    # A blank between the lines, so that screen readers separate the words.
    texts = " ".join(
        f'<tspan class="{name}" x="{px(middle)}" '
        f'y="{px(baseline + line * _LINE_HEIGHT)}" font-size="{size:g}">'
        f"{escape(text)}</tspan>"
        for line, (size, name, text) in enumerate(lines)
    )
    return (
        f'<a id="n-{number}" class="node type-{box.type} is-{mark.state}" '
        f"data-node={_quoted(box.id)}{_data(mark)} href={_quoted(mark.href)} "
        f'aria-labelledby="t-{number}"><title>{escape(shortened(box.id, 200))}</title>'
        f'<g class="shape">{shape_of(placed)}</g>'
        f'<text id="t-{number}" text-anchor="middle">{texts}</text></a>{_ring(placed, mark)}'
    )


def _data(mark: NodeMark) -> str:
    return "".join(f" data-{name}={_quoted(value)}" for name, value in mark.data.items())


def _ring(placed: Placed, mark: NodeMark) -> str:
    if mark.ring is None:
        return ""
    x, y = placed.x + placed.width, placed.y
    circle = f'cx="{px(x)}" cy="{px(y)}" r="{_RING}"'
    return (
        f'<a class="ring is-{mark.state}" data-ring={_quoted(placed.box.id)} '
        f"href={_quoted(mark.ring.href)} aria-label={_quoted(mark.ring.text)}>"
        f'<title>{escape(mark.ring.text)}</title><circle class="ground" {circle}/>'
        f'<circle class="share" {circle} pathLength="100" '
        f'stroke-dasharray="{100 * mark.ring.share:.0f} 100" '
        f'transform="rotate(-90 {px(x)} {px(y)})"/></a>'
    )


def _label(route: PlacedArrow, taken: Mapping[tuple[str, str], int]) -> str:
    """Return a label; drawn above all lines, so that none crosses a word."""
    count = 0 if route.kind == "each" else taken.get((route.source, route.target), 0)
    text = f"{route.label} {TIMES}{count:,}".lstrip() if count > 1 else route.label
    if not text:
        return ""
    at, width = route.anchor or _middle(route.points), width_of(text, LABEL) + LABEL_PADDING
    return (
        f'<rect class="ground" x="{px(at.x - width / 2)}" y="{px(at.y - 8)}" '
        f'width="{px(width)}" height="16" rx="3"/>'
        f'<text class="label" x="{px(at.x)}" y="{px(at.y + 4)}" text-anchor="middle" '
        f'font-size="{LABEL.size:g}">{title_of(route)}{escape(text)}</text>'
    )


def _middle(points: Sequence[Point]) -> Point:
    """Return the middle of a line's longest part."""
    parts = pairwise(points)
    one, other = max(parts, key=lambda part: hypot(part[0].x - part[1].x, part[0].y - part[1].y))
    return Point((one.x + other.x) / 2, (one.y + other.y) / 2)


def _quoted(text: str) -> str:
    """Quote an attribute; XML allows no control characters, not even escaped."""
    return quoteattr("".join(char if char.isprintable() else " " for char in text))
