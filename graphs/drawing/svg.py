"""A graph as a self-contained SVG image."""

from __future__ import annotations

from collections.abc import Mapping
from math import hypot
from typing import Final
from xml.sax.saxutils import escape

from sleipnir.graphs.drawing.colours import INK, LINE, paint_of
from sleipnir.graphs.drawing.layout import Framed, Picture, Placed, PlacedArrow, Point, place
from sleipnir.graphs.drawing.native import Native
from sleipnir.graphs.drawing.outline import Kind, Outline
from sleipnir.graphs.drawing.text import BODY, LABEL, SMALL, shortened, width_of

FONT: Final = "Helvetica, Arial, 'Liberation Sans', 'DejaVu Sans', sans-serif"
MARGIN: Final = 24
CORNER: Final = 8  # radius of an arrow's bends
SLANT: Final = 12
FAINT: Final = "#52606d"
RADII: Final[Mapping[str, float]] = {"end": 25, "llm": 14}
STROKES: Final[Mapping[Kind, str]] = {
    "usual": 'stroke-width="1.5"',
    "parallel": 'stroke-width="2.5"',
    "otherwise": 'stroke-width="1.5" stroke-dasharray="6 4"',
    "each": 'stroke-width="1.8" stroke-dasharray="1.5 4.5" stroke-linecap="round"',
    "chosen": 'stroke-width="1.5" stroke-dasharray="6 4"',
    "back": 'stroke-width="1.5" stroke-dasharray="6 4"',
}


def to_svg(outline: Outline, native: Native) -> str:
    """Return the graph as an SVG document: dark on light, in the viewer's sans-serif font."""
    return svg_of(place(outline, native), outline)


def svg_of(picture: Picture, outline: Outline) -> str:
    """Return the same of a layout."""
    left, top = picture.bounds[:2]
    width, height = size_of(picture)
    view = f"{px(left - MARGIN)} {px(top - MARGIN)} {px(width)} {px(height)}"
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{px(width)}" height="{px(height)}" '
        f'viewBox="{view}" font-family="{FONT}" role="img">',
        f"<title>{escape(shortened(outline.name, 200))}</title>",
        "<defs>"
        '<marker id="tip" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="9" markerHeight="9" '
        f'markerUnits="userSpaceOnUse" orient="auto"><path d="M0 1 10 5 0 9z" fill="{LINE}"/>'
        "</marker></defs>",
        f'<rect x="{px(left - MARGIN)}" y="{px(top - MARGIN)}" width="{px(width)}" '
        f'height="{px(height)}" fill="#ffffff"/>',
        *map(_frame, picture.frames),
        *(_arrow(route) for route in picture.routes),
        *map(_start, picture.dots),
        *(_node(placed, outline.has_progress) for placed in picture.boxes),
        # Above all lines, so that none crosses a word.
        *(_label(route, route.anchor) for route in picture.routes if route.anchor),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def size_of(picture: Picture) -> tuple[float, float]:
    """Return the width and height of a picture with its margin."""
    left, top, right, bottom = picture.bounds
    return right - left + 2 * MARGIN, bottom - top + 2 * MARGIN


def _arrow(route: PlacedArrow) -> str:
    return (
        f'<path d="{bent_path(route.points)}" fill="none" stroke="{LINE}" {STROKES[route.kind]} '
        'marker-end="url(#tip)"/>'
    )


def bent_path(points: tuple[Point, ...]) -> str:
    """Return a path through the points with rounded bends."""
    if len(points) == 2 and points[0].y == points[1].y:  # most of them: told briefly
        return f"M{_at(points[0])}h{px(points[1].x - points[0].x)}"
    path = [f"M{_at(points[0])}"]
    for before, bend, after in zip(points, points[1:], points[2:], strict=False):
        entry, leave = _towards(bend, before), _towards(bend, after)
        path.append(f"L{_at(entry)}Q{_at(bend)} {_at(leave)}")
    return "".join([*path, f"L{_at(points[-1])}"])


def _towards(bend: Point, other: Point) -> Point:
    """Return where a bend begins or ends, on the way to another point."""
    length = hypot(other.x - bend.x, other.y - bend.y)
    share = min(CORNER, length / 2) / length if length else 0.0
    return Point(bend.x + (other.x - bend.x) * share, bend.y + (other.y - bend.y) * share)


def title_of(route: PlacedArrow) -> str:
    """Return the tooltip of a label that is shortened."""
    return f"<title>{escape(route.title)}</title>" if route.title != route.label else ""


def _label(route: PlacedArrow, anchor: Point) -> str:
    width = width_of(route.label, LABEL) + 4
    return (
        f'<rect x="{px(anchor.x - width / 2)}" y="{px(anchor.y - 8)}" width="{px(width)}" '
        'height="16" rx="3" fill="#ffffff" fill-opacity="0.92"/>'
        f'<text x="{px(anchor.x)}" y="{px(anchor.y + 4)}" text-anchor="middle" '
        f'font-size="{LABEL.size:g}" fill="{INK}">{title_of(route)}{escape(route.label)}</text>'
    )


def _frame(frame: Framed) -> str:
    return (
        f'<rect x="{px(frame.x)}" y="{px(frame.y)}" width="{px(frame.width)}" '
        f'height="{px(frame.height)}" rx="8" fill="none" stroke="{LINE}" stroke-dasharray="2 3"/>'
        f'<text x="{px(frame.x + 10)}" y="{px(frame.y + 15)}" font-size="{LABEL.size:g}" '
        f'fill="{FAINT}">{escape(frame.name)}</text>'
    )


def _start(centre: Point) -> str:
    return f'<circle cx="{px(centre.x)}" cy="{px(centre.y)}" r="6" fill="{INK}"/>'


def _node(placed: Placed, by_progress: bool) -> str:
    paint = paint_of(placed.box, by_progress)
    name, caption = placed.texts
    middle = placed.x + placed.width / 2
    # The map's stack and the cylinder's lid leave less room above the text.
    baseline = placed.y + (24 if placed.box.type in ("map", "rag") else 22)
    return (
        f'<g><title>{escape(placed.box.id)}</title><g fill="{paint.fill}" '
        f'stroke="{paint.border}" stroke-width="1.5">{shape_of(placed)}</g>'
        f'<text text-anchor="middle" fill="{INK}">'
        f'<tspan x="{px(middle)}" y="{px(baseline)}" font-size="{BODY.size:g}" '
        f'font-weight="bold">{escape(name)}</tspan>'
        f'<tspan x="{px(middle)}" y="{px(baseline + 16)}" font-size="{SMALL.size:g}" '
        f'fill="{FAINT}">{escape(caption)}</tspan></text></g>'
    )


def shape_of(placed: Placed) -> str:
    """Return the outline of a node, by its type."""
    left, top, width, height = placed.x, placed.y, placed.width, placed.height
    right, bottom, middle = left + width, top + height, top + height / 2
    match placed.box.type:
        case "agent":
            return _rectangle(left, top, width, height, 2) + "".join(
                f'<path d="M{px(x)} {px(top)}V{px(bottom)}"/>' for x in (left + 7, right - 7)
            )
        case "approval":
            return _polygon(
                (left + SLANT, top),
                (right - SLANT, top),
                (right, middle),
                (right - SLANT, bottom),
                (left + SLANT, bottom),
                (left, middle),
            )
        case "input":
            return _polygon(
                (left + SLANT, top), (right, top), (right - SLANT, bottom), (left, bottom)
            )
        case "map" | "row":
            behind = _rectangle(left + 5, top, width - 5, height - 5, 4)
            return behind + _rectangle(left, top + 5, width - 5, height - 5, 4)
        case "rag":
            return _cylinder(left, top, width, height)
        case node_type:
            return _rectangle(left, top, width, height, RADII.get(node_type, 4))


def _rectangle(left: float, top: float, width: float, height: float, radius: float) -> str:
    return (
        f'<rect x="{px(left)}" y="{px(top)}" width="{px(width)}" height="{px(height)}" '
        f'rx="{px(radius)}"/>'
    )


def _polygon(*corners: tuple[float, float]) -> str:
    points = " ".join(f"{px(x)},{px(y)}" for x, y in corners)
    return f'<polygon points="{points}" stroke-linejoin="round"/>'


def _cylinder(left: float, top: float, width: float, height: float) -> str:
    half, lid = width / 2, 6
    return (
        f'<path d="M{px(left)} {px(top + lid)}a{px(half)} {lid} 0 0 1 {px(width)} 0'
        f'v{px(height - 2 * lid)}a{px(half)} {lid} 0 0 1 {px(-width)} 0z"/>'
        f'<path d="M{px(left)} {px(top + lid)}a{px(half)} {lid} 0 0 0 {px(width)} 0" fill="none"/>'
    )


def _at(point: Point) -> str:
    return f"{px(point.x)} {px(point.y)}"


def px(number: float) -> str:
    """Return a number rounded to a tenth of a pixel, as short as possible."""
    return f"{number:.1f}".removesuffix(".0")
