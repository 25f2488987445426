"""What every drawing shows: boxes for nodes, arrows for declared edges."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final, Literal, TypeAlias

from sleipnir.graphs.chains import chain_of
from sleipnir.graphs.drawing.text import in_one_line, shortened
from sleipnir.graphs.edges import distances, loops
from sleipnir.graphs.schema import Graph, MapNode, Node
from sleipnir.records import dataclass

Progress: TypeAlias = Literal[
    "done",
    "tolerated",
    "queued",
    "running",
    "waiting",
    "staged",
    "failed",
    "interrupted",
    "cancelled",
    "timed_out",
]
# The only way on; one of several taken at once; taken if the usual way is not; from a map to its
# branch; taken if a script chooses it; leads back in a loop.
Kind: TypeAlias = Literal["usual", "parallel", "otherwise", "each", "chosen", "back"]
Route: TypeAlias = tuple[str, str]  # source and target
LABEL_LENGTH: Final = 40  # characters of an arrow's label
TIMES: Final = "\N{MULTIPLICATION SIGN}"
_WORDS: Final[Mapping[str, str]] = {
    "tolerated": "failed, continued",
    "staged": "done, not committed",
    "timed_out": "timed out",
}


@dataclass(frozen=True, slots=True)
class Box:
    """One node."""

    id: str
    type: str
    caption: str  # its type, what it runs or iterates over, and its progress
    progress: Progress | None = None


@dataclass(frozen=True, slots=True)
class Arrow:
    """An edge. Edges of one kind between the same nodes are one arrow."""

    source: str
    target: str
    kind: Kind
    label: str = ""
    title: str = ""  # the whole label, if it is shortened


@dataclass(frozen=True, slots=True)
class Frame:
    """A frame around the chain of nodes that a map runs for each item, or around a group."""

    name: str  # of the map, or of the group
    nodes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Outline:
    """The parts of a graph that are drawn."""

    name: str  # of the agent
    boxes: tuple[Box, ...]
    arrows: tuple[Arrow, ...]
    start: str
    has_progress: bool = False
    frames: tuple[Frame, ...] = ()  # none shares a node with another one


def outline_of(graph: Graph, chosen: Iterable[Route] = ()) -> Outline:
    """Return boxes in file order, and the arrows between them, without edges to unknown nodes.

    Args:
        chosen: routes that scripts may choose.
    """
    boxes = tuple(Box(key, node.type, _what(node)) for key, node in graph.nodes.items())
    arrows = (arrow for key, node in graph.nodes.items() for arrow in _arrows(key, node))
    known = [arrow for arrow in arrows if arrow.target in graph.nodes]
    back = _leading_back(graph, known)
    turned = (replace(each, kind="back") if each in back else each for each in known)
    frames = tuple(_frames(graph))
    outline = Outline(graph.name, boxes, _merged(turned), graph.start, frames=frames)
    return including(outline, chosen)


def including(outline: Outline, chosen: Iterable[Route]) -> Outline:
    """Return the outline with arrows for routes that scripts choose, where it has none yet."""
    wanted = list(chosen)
    if not wanted:
        return outline
    known = {(arrow.source, arrow.target) for arrow in outline.arrows if arrow.kind != "each"}
    more = [Arrow(*route, "chosen", "_next") for route in wanted if route not in known]
    return replace(outline, arrows=(*outline.arrows, *more)) if more else outline


def with_progress(
    outline: Outline,
    progress: Mapping[str, Progress],
    taken: Mapping[Route, int] | None = None,
) -> Outline:
    """Return the outline with a run's progress.

    Args:
        progress: of each node that the run has reached.
        taken: how often the run took the edge between two nodes.
    """
    boxes = tuple(_reached(box, progress.get(box.id)) for box in outline.boxes)
    arrows = tuple(_counted(arrow, taken or {}) for arrow in outline.arrows)
    return replace(outline, boxes=boxes, arrows=arrows, has_progress=True)


def _frames(graph: Graph) -> Iterator[Frame]:
    """Yield chains and groups of several nodes; a node of several is drawn in the first."""
    taken: set[str] = set()
    wanted: list[tuple[str, Iterable[str]]] = [
        (map_id, chain_of(graph, node)) for map_id, node in graph.nodes_of(MapNode)
    ]
    groups: dict[str, list[str]] = {}
    for node_id, node in graph.nodes.items():
        if isinstance(node.group, str) and node.group:
            groups.setdefault(node.group, []).append(node_id)
    for name, nodes in [*wanted, *groups.items()]:
        framed = tuple(each for each in nodes if each not in taken)
        if len(framed) > 1:
            taken.update(framed)
            yield Frame(name, framed)


def _reached(box: Box, progress: Progress | None) -> Box:
    if progress is None:
        return box
    # In words too, as not everyone can tell the colours apart.
    words = _WORDS.get(progress, progress)
    return replace(box, caption=f"{box.caption} · {words}", progress=progress)


def _counted(arrow: Arrow, taken: Mapping[Route, int]) -> Arrow:
    count = taken.get((arrow.source, arrow.target), 0)
    if count < 2 or arrow.kind == "each":
        return arrow
    return replace(arrow, label=f"{arrow.label} {TIMES}{count:,}".lstrip())


def _what(node: Node) -> str:
    if node.CAPTION is None:
        return node.type
    return f"{node.type}: {getattr(node, node.CAPTION).strip().strip('{}')}"


def _arrows(key: str, node: Node) -> Iterator[Arrow]:
    for way in node.exits():
        match way.field:
            case ("routes", str(answer)):
                yield _arrow(key, way.target, "usual", answer)
            case ("next", *_) if way.way is not None:
                several = isinstance(way.way.to, list) and len(set(way.way.to)) > 1
                kind: Kind = "parallel" if several else "usual"
                limit = "" if way.way.most is None else f", max {way.way.most}"
                yield _arrow(key, way.target, kind, way.way.label, limit)
            case ("branch",):
                yield Arrow(key, way.target, "each", "each")
            case ("on_other",):
                yield Arrow(key, way.target, "otherwise", "other")
            case (name,):
                yield Arrow(key, way.target, "otherwise", str(name))


def _arrow(source: str, target: str, kind: Kind, label: str, more: str = "") -> Arrow:
    """Return an arrow whose label is shortened, except for `more` of it."""
    short, whole = shortened(label, LABEL_LENGTH) + more, in_one_line(label) + more
    return Arrow(source, target, kind, short, "" if short == whole else whole)


def _leading_back(graph: Graph, arrows: Sequence[Arrow]) -> set[Arrow]:
    """Return the arrows that close a loop: to a node reached no later than where they begin."""
    routes = [arrow for arrow in arrows if arrow.kind != "each"]
    adjacency: dict[str, list[str]] = {node_id: [] for node_id in graph.nodes}
    for arrow in routes:
        adjacency[arrow.source].append(arrow.target)
    depths = distances([graph.start] if graph.start in adjacency else [], adjacency)
    loop_of = {node: number for number, (loop, _) in enumerate(loops(adjacency)) for node in loop}
    return {
        arrow
        for arrow in routes
        if loop_of.get(arrow.source, -1) == loop_of.get(arrow.target, -2)
        and depths.get(arrow.target, 0) <= depths.get(arrow.source, 0)
    }


def _merged(arrows: Iterator[Arrow]) -> tuple[Arrow, ...]:
    groups: dict[tuple[str, str, Kind], list[Arrow]] = {}
    for arrow in arrows:
        groups.setdefault((arrow.source, arrow.target, arrow.kind), []).append(arrow)
    return tuple(map(_joined, groups.values()))


def _joined(arrows: Sequence[Arrow]) -> Arrow:
    """Return one arrow for several between the same nodes."""
    first, *others = arrows
    if not others:
        return first
    label = " / ".join(each.title or each.label for each in arrows)
    return _arrow(first.source, first.target, first.kind, label)
