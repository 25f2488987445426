"""Simplifies drawings of graphs that are too large to take in.

Nodes in a row become one box. Edges such as fallbacks that lead from many nodes to the same one are
only mentioned in its caption: drawing them takes the layout minutes, and hides everything else.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final, TypeAlias

from sleipnir.graphs.drawing.outline import Arrow, Box, Outline

# Graphs with more nodes are folded.
MOST_NODES: Final = 400
# Shorter rows take hardly more room than their box.
_FEWEST_IN_A_ROW: Final = 3
# Limit on arrows of these kinds that are drawn into one node.
_MOST_ASIDE: Final = 20
_ASIDE: Final = frozenset({"otherwise", "each", "chosen"})
ROW_TYPE: Final = "row"

# The nodes of each row, by the id of its first node, which is also the id of its box.
Rows: TypeAlias = Mapping[str, Sequence[str]]


def folded(outline: Outline, most: int = MOST_NODES) -> tuple[Outline, Rows]:
    """Return a simplified outline, and the rows that became one box.

    Args:
        most: number of nodes up to which each has a box of its own.
    """
    outline = _thinned(outline)
    if len(outline.boxes) <= most:
        return outline, {}
    rows = _rows(outline)
    of_node = {node: first for first, nodes in rows.items() for node in nodes}
    boxes = tuple(
        _row_box(box, rows[box.id]) if box.id in rows else box
        for box in outline.boxes
        if of_node.get(box.id, box.id) == box.id
    )
    arrows = tuple(
        _between(arrow, of_node) for arrow in outline.arrows if not _is_within(arrow, of_node)
    )
    start = of_node.get(outline.start, outline.start)
    frames = tuple(
        replace(frame, nodes=tuple(n for n in frame.nodes if of_node.get(n, n) == n))
        for frame in outline.frames
    )
    return replace(outline, boxes=boxes, arrows=arrows, start=start, frames=frames), rows


def _thinned(outline: Outline) -> Outline:
    """Remove side edges into nodes that have many, and add their number to the captions."""
    aside = Counter(arrow.target for arrow in outline.arrows if arrow.kind in _ASIDE)
    many = {node: count for node, count in aside.items() if count > _MOST_ASIDE}
    if not many:
        return outline
    boxes = tuple(
        replace(box, caption=f"{box.caption}, from {many[box.id]} nodes") if box.id in many else box
        for box in outline.boxes
    )
    arrows = tuple(a for a in outline.arrows if not (a.kind in _ASIDE and a.target in many))
    return replace(outline, boxes=boxes, arrows=arrows)


def _row_box(first: Box, nodes: Sequence[str]) -> Box:
    return Box(first.id, ROW_TYPE, f"{len(nodes)} nodes, to {nodes[-1]}")


def _between(arrow: Arrow, of_node: Mapping[str, str]) -> Arrow:
    source, target = (of_node.get(node, node) for node in (arrow.source, arrow.target))
    return replace(arrow, source=source, target=target)


def _is_within(arrow: Arrow, of_node: Mapping[str, str]) -> bool:
    """Return whether an arrow leads from a node of a row to the next one."""
    row = of_node.get(arrow.source)
    return row is not None and row == of_node.get(arrow.target) and arrow.target != row


def _rows(outline: Outline) -> Rows:
    """Return the longest rows: chains of nodes with no other edges between them."""
    follows = _only_ways(outline)
    inner = set(follows.values())
    rows: dict[str, Sequence[str]] = {}
    for box in outline.boxes:
        if box.id in follows and box.id not in inner:
            row = [box.id]
            while row[-1] in follows:
                row.append(follows[row[-1]])
            if len(row) >= _FEWEST_IN_A_ROW:
                rows[box.id] = row
    return rows


def _only_ways(outline: Outline) -> dict[str, str]:
    """Return each node's successor where neither has another edge on that side."""
    leaving: dict[str, list[Arrow]] = {}
    entering: dict[str, list[Arrow]] = {}
    for arrow in outline.arrows:
        leaving.setdefault(arrow.source, []).append(arrow)
        entering.setdefault(arrow.target, []).append(arrow)
    return {
        source: arrow.target
        for source, (arrow, *others) in leaving.items()
        if not others
        and arrow.kind == "usual"
        and arrow.target != outline.start
        and len(entering[arrow.target]) == 1
    }
