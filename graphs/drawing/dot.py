"""A graph in DOT, the language of Graphviz."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from sleipnir.graphs.drawing.colours import INK, LINE, paint_of
from sleipnir.graphs.drawing.outline import Arrow, Box, Kind, Outline

SHAPES: Final[Mapping[str, str]] = {
    "agent": 'shape=box, style="filled", peripheries=2',
    "approval": 'shape=diamond, style="filled"',
    "build": 'shape=box, style="filled"',
    "end": 'shape=oval, style="filled"',
    "input": 'shape=parallelogram, style="filled"',
    "llm": 'shape=box, style="filled,rounded"',
    "map": 'shape=box3d, style="filled"',
    "rag": 'shape=cylinder, style="filled"',
    "script": 'shape=box, style="filled"',
    "set": 'shape=box, style="filled"',
}
LINES: Final[Mapping[Kind, str]] = {
    "usual": "style=solid",
    "parallel": "style=solid, penwidth=2.2",
    "otherwise": "style=dashed",
    "each": "style=dotted, penwidth=1.6",
    "chosen": "style=dashed",
    "back": "style=dashed",
}
# Cannot be a node id, as ids contain no blanks.
START: Final = '" start"'


def to_dot(outline: Outline) -> str:
    """Return the graph as DOT text, top to bottom."""
    font = 'fontname="Helvetica"'
    lines = [
        f"digraph {_quoted(outline.name)} {{",
        "    rankdir=TB;",
        f'    node [{font}, fontsize=12, fontcolor="{INK}"];',
        f'    edge [{font}, fontsize=10, color="{LINE}", fontcolor="{INK}"];',
        f'    {START} [shape=circle, width=0.15, label="", style=filled, fillcolor="{INK}"];',
    ]
    nodes = {box.id: _node(box, outline.has_progress) for box in outline.boxes}
    for number, frame in enumerate(outline.frames):
        lines.append(f"    subgraph cluster_{number} {{")
        lines.append(
            f'        label="{_label(frame.name)}"; {font}; color="{LINE}"; style=rounded;'
        )
        lines += [f"    {nodes.pop(node)}" for node in frame.nodes]
        lines.append("    }")
    lines += nodes.values()
    if any(box.id == outline.start for box in outline.boxes):
        lines.append(f"    {START} -> {_quoted(outline.start)};")
    lines += [_edge(arrow) for arrow in outline.arrows]
    return "\n".join([*lines, "}"]) + "\n"


def _node(box: Box, by_progress: bool) -> str:
    paint = paint_of(box, by_progress)
    # `\\n` is DOT's own line break.
    label = f'"{_label(box.id)}\\n{_label(box.caption)}"'
    look = f'{SHAPES[box.type]}, fillcolor="{paint.fill}", color="{paint.border}"'
    return f"    {_quoted(box.id)} [label={label}, {look}];"


def _edge(arrow: Arrow) -> str:
    label = f'label="{_label(arrow.label)}", ' if arrow.label else ""
    if arrow.title:
        label += f'labeltooltip="{_label(arrow.title)}", '
    return f"    {_quoted(arrow.source)} -> {_quoted(arrow.target)} [{label}{LINES[arrow.kind]}];"


def _quoted(identifier: str) -> str:
    return f'"{_escaped(identifier)}"'


def _label(text: str) -> str:
    """Escape a label; its ampersands too, as labels may contain HTML entities."""
    return _escaped(text).replace("&", "&amp;")


def _escaped(text: str) -> str:
    return " ".join(text.split()).replace("\\", "\\\\").replace('"', '\\"')
