"""What every drawing shows: boxes for nodes, arrows for declared edges."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Literal, TypeAlias

from sleipnir.graphs.schema import (
    AgentNode,
    ApprovalNode,
    EndNode,
    Graph,
    LlmNode,
    MapNode,
    Node,
    ScriptNode,
)
from sleipnir.records import dataclass

Progress: TypeAlias = Literal["done", "tolerated", "running", "waiting", "failed"]
# The only way on; one of several taken at once; taken if the usual way is not; from a map to its
# branch.
Kind: TypeAlias = Literal["usual", "parallel", "otherwise", "each"]


@dataclass(frozen=True, slots=True)
class Box:
    """One node."""

    id: str
    type: str
    caption: str  # its type, what it runs or iterates over, and its progress
    progress: Progress | None = None


@dataclass(frozen=True, slots=True)
class Arrow:
    """A declared edge. Edges of one kind between the same nodes are one arrow."""

    source: str
    target: str
    kind: Kind
    label: str = ""


@dataclass(frozen=True, slots=True)
class Outline:
    """The parts of a graph that are drawn."""

    name: str  # of the agent
    boxes: tuple[Box, ...]
    arrows: tuple[Arrow, ...]
    start: str
    has_progress: bool = False


def outline_of(graph: Graph, progress: Mapping[str, Progress] | None = None) -> Outline:
    """Return boxes in file order, and the arrows between them, without edges to unknown nodes."""
    reached = progress or {}
    boxes = tuple(_box(key, node, reached.get(key)) for key, node in graph.nodes.items())
    arrows = (arrow for key, node in graph.nodes.items() for arrow in _arrows(key, node))
    known = (arrow for arrow in arrows if arrow.target in graph.nodes)
    return Outline(graph.name, boxes, _merged(known), graph.start, progress is not None)


def _box(key: str, node: Node, progress: Progress | None) -> Box:
    what = _what(node)
    # In words too, as not everyone can tell the colours apart.
    if progress is not None:
        what = f"{what} · {'failed, continued' if progress == 'tolerated' else progress}"
    return Box(key, node.type, what, progress)


def _what(node: Node) -> str:
    match node:
        case AgentNode():
            return f"agent: {node.agent}"
        case MapNode():
            return f"map: {node.over.strip().strip('{}')}"
        case _:
            return node.type


def _arrows(key: str, node: Node) -> Iterator[Arrow]:
    match node:
        case EndNode():
            return
        case ApprovalNode():
            for answer, target in node.routes.items():
                yield Arrow(key, target, "usual", answer)
            yield Arrow(key, node.on_other, "otherwise", "other")
            return
        case MapNode():
            yield Arrow(key, node.branch, "each", "each")
    targets = node.targets
    for target in targets:
        yield Arrow(key, target, "parallel" if len(targets) > 1 else "usual")
    if isinstance(node, LlmNode | ScriptNode) and node.fallback is not None:
        yield Arrow(key, node.fallback, "otherwise", "fallback")


def _merged(arrows: Iterator[Arrow]) -> tuple[Arrow, ...]:
    labels: dict[tuple[str, str, Kind], list[str]] = {}
    for arrow in arrows:
        labels.setdefault((arrow.source, arrow.target, arrow.kind), []).append(arrow.label)
    return tuple(Arrow(*ends, " / ".join(texts)) for ends, texts in labels.items())
