"""The positions of boxes and the course of arrows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from sleipnir.graphs.drawing.native import Native
from sleipnir.graphs.drawing.outline import Arrow, Box, Frame, Kind, Outline
from sleipnir.graphs.drawing.text import BODY, LABEL, SMALL, shortened, width_of
from sleipnir.records import dataclass

TEXT_LENGTH: Final = 40
BOX_HEIGHT: Final = 50.0
BOX_WIDTH: Final = 96.0  # at least
PADDING: Final = 30.0  # left and right of the text together; slanted sides need some
LABEL_PADDING: Final = 8.0
LABEL_HEIGHT: Final = 16.0
# Cannot be a node id, as ids are not empty.
START: Final = ""
START_SIZE: Final = 12.0
# Tangles of more edges are laid out five times faster, with a twentieth more crossings.
MANY_EDGES: Final = 150
OPTIONS: Final[Mapping[str, Any]] = {
    "direction": "topbottom",
    "spacing": {
        "layer_gap": 46.0,
        "node_gap": 36.0,
        "edge_label_margin": 14.0,
        "compound_header": 18.0,
    },
    "labels": {"reservation": "always"},
}


@dataclass(frozen=True, slots=True)
class Point:
    x: float
    y: float


@dataclass(frozen=True, slots=True)
class Measured:
    """The lines of text of a box, and its size."""

    texts: tuple[str, ...]
    width: float
    height: float


@dataclass(frozen=True, slots=True)
class Placed:
    """A box with its texts and its rectangle; `x`, `y` are the upper left corner."""

    box: Box
    texts: tuple[str, ...]
    x: float
    y: float
    width: float
    height: float


@dataclass(frozen=True, slots=True)
class PlacedArrow:
    """An arrow as a line of points, and the centre of its label."""

    points: tuple[Point, ...]
    kind: Kind
    source: str
    target: str
    label: str = ""
    anchor: Point | None = None
    title: str = ""  # the whole label


@dataclass(frozen=True, slots=True)
class Framed:
    """A frame with its name, and its rectangle as of a `Placed`."""

    name: str
    x: float
    y: float
    width: float
    height: float


@dataclass(frozen=True, slots=True)
class Picture:
    boxes: tuple[Placed, ...]
    frames: tuple[Framed, ...]
    routes: tuple[PlacedArrow, ...]
    dots: tuple[Point, ...]  # in front of the first node, if there is one
    bounds: tuple[float, float, float, float]  # left, top, right, bottom


def measured(box: Box) -> Measured:
    """Return a box with two lines: the node's id, and its caption."""
    name, caption = shortened(box.id, TEXT_LENGTH), shortened(box.caption, TEXT_LENGTH)
    width = max(width_of(name, BODY), width_of(caption, SMALL)) + PADDING
    return Measured((name, caption), max(BOX_WIDTH, width), BOX_HEIGHT)


def label_width(arrow: Arrow) -> float:
    """Return how wide an arrow's label is, with its ground."""
    return width_of(arrow.label, LABEL) + LABEL_PADDING


@dataclass(frozen=True, slots=True)
class Sizing:
    """The sizes of a drawing's parts, and the options of its layout, over graphlay's own."""

    measure: Callable[[Box], Measured]
    label_width: Callable[[Arrow], float]
    options: Mapping[str, Any]


SIZING: Final = Sizing(measured, label_width, OPTIONS)


def place(outline: Outline, native: Native, sizing: Sizing = SIZING) -> Picture:
    """Lay a graph out in layers; deterministic."""
    sizes = [sizing.measure(box) for box in outline.boxes]
    nodes = [
        _node(box.id, size.width, size.height)
        for box, size in zip(outline.boxes, sizes, strict=True)
    ]
    arrows = list(outline.arrows)
    if any(box.id == outline.start for box in outline.boxes):
        nodes.append({**_node(START, START_SIZE, START_SIZE), "shape": "ellipse", "rank": "first"})
        arrows.append(Arrow(START, outline.start, "usual"))
    numbers = {node["key"]: number for number, node in enumerate(nodes)}
    for number, frame in enumerate(outline.frames):
        for node in frame.nodes:
            nodes[numbers[node]]["parent"] = len(nodes)
        nodes.append(_node(f" {number}", BOX_WIDTH, BOX_HEIGHT))  # fits what is in it
    edges = [_edge(arrow, numbers, sizing) for arrow in arrows]

    effort = "fast" if len(edges) > MANY_EDGES else "balanced"
    drawn = native.lay_out({"nodes": nodes, "edges": edges}, {**sizing.options, "effort": effort})

    boxes = tuple(map(_placed, outline.boxes, sizes, drawn["nodes"]))
    routes = tuple(map(_route, arrows, drawn["edges"]))
    frames_at = len(nodes) - len(outline.frames)
    frames = tuple(map(_framed, outline.frames, drawn["nodes"][frames_at:]))
    dots = tuple(Point(**node["center"]) for node in drawn["nodes"][len(boxes) : frames_at])
    return Picture(boxes, frames, routes, dots, _bounds([*boxes, *frames], routes, dots))


def _node(key: str, width: float, height: float) -> dict[str, Any]:
    return {"key": key, "size": {"width": width, "height": height}, "shape": "box"}


def _edge(arrow: Arrow, numbers: Mapping[str, int], sizing: Sizing) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "source": numbers[arrow.source],
        "target": numbers[arrow.target],
        # Draw the usual way through the graph as straight as possible.
        "weight": 1.0 if arrow.kind in ("otherwise", "chosen", "back") else 3.0,
    }
    if arrow.label:
        fields["label_size"] = {"width": sizing.label_width(arrow), "height": LABEL_HEIGHT}
    return fields


def _placed(box: Box, size: Measured, node: Mapping[str, Any]) -> Placed:
    return Placed(box, size.texts, *_rectangle(node))


def _framed(frame: Frame, node: Mapping[str, Any]) -> Framed:
    return Framed(shortened(frame.name, TEXT_LENGTH), *_rectangle(node))


def _rectangle(node: Mapping[str, Any]) -> tuple[float, float, float, float]:
    """Return the left, top, width and height of a node."""
    width, height = node["size"]["width"], node["size"]["height"]
    return node["center"]["x"] - width / 2, node["center"]["y"] - height / 2, width, height


def _route(arrow: Arrow, edge: Mapping[str, Any]) -> PlacedArrow:
    points = _straight([Point(**point) for point in edge["points"]])
    anchor = edge["label_anchor"]
    at = Point(**anchor) if anchor else None
    return PlacedArrow(
        points, arrow.kind, arrow.source, arrow.target, arrow.label, at, arrow.title or arrow.label
    )


def _straight(points: list[Point]) -> tuple[Point, ...]:
    """Remove slopes of a fraction of a pixel, which come from rounding."""
    straight = points[:1]
    for point in points[1:]:
        before = straight[-1]
        x = before.x if abs(point.x - before.x) < 1 else point.x
        y = before.y if abs(point.y - before.y) < 1 else point.y
        straight.append(Point(x, y))
    return tuple(straight)


def _bounds(
    boxes: Iterable[Placed | Framed], routes: Iterable[PlacedArrow], dots: Iterable[Point]
) -> tuple[float, float, float, float]:
    xs, ys = [0.0], [0.0]
    for placed in boxes:
        xs += [placed.x, placed.x + placed.width]
        ys += [placed.y, placed.y + placed.height]
    for point in [*dots, *(point for route in routes for point in route.points)]:
        xs.append(point.x)
        ys.append(point.y)
    for route in routes:
        if route.anchor:
            half = (width_of(route.label, LABEL) + LABEL_PADDING) / 2
            xs += [route.anchor.x - half, route.anchor.x + half]
    return min(xs), min(ys), max(xs), max(ys)
