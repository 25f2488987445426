"""A graph as a Mermaid flowchart."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from sleipnir.graphs.drawing.colours import INK, OF_PROGRESS, OF_TYPE, paint_name
from sleipnir.graphs.drawing.outline import Box, Kind, Outline

SHAPES: Final[Mapping[str, tuple[str, str]]] = {
    "agent": ("[[", "]]"),
    "approval": ("{", "}"),
    "build": ("[", "]"),
    "end": ("([", "])"),
    "input": ("[/", "/]"),
    "llm": ("(", ")"),
    "map": ("{{", "}}"),
    "rag": ("[(", ")]"),
    "script": ("[", "]"),
    "set": ("[", "]"),
}
LINES: Final[Mapping[Kind, str]] = {
    "usual": "-->",
    "parallel": "==>",
    "otherwise": "-.->",
    "each": "-.->",
    "chosen": "-.->",
    "back": "-.->",
}
# Everything that might be syntax of Mermaid or Markdown, in any version.
SPECIAL: Final = re.compile(r"[^\w\s,:/()?!'=+.-]|^\s*[-+]|\.(?=\s)|_{2,}", re.ASCII)


def to_mermaid(outline: Outline) -> str:
    """Return the graph as Mermaid text, top to bottom."""
    by_progress = outline.has_progress
    # Node ids may be keywords of Mermaid, such as `end`.
    names = {box.id: f"n{number}" for number, box in enumerate(outline.boxes)}
    lines = ["flowchart TD"]
    nodes = {
        box.id: f"{names[box.id]}{_shape(box)}:::{paint_name(box, by_progress)}Node"
        for box in outline.boxes
    }
    for number, frame in enumerate(outline.frames):
        lines.append(f'    subgraph g{number} ["{_escaped(frame.name)}"]')
        lines += [f"        {nodes.pop(node)}" for node in frame.nodes]
        lines.append("    end")
    lines += [f"    {node}" for node in nodes.values()]
    if outline.start in names:
        lines.append(f"    start(( )) --> {names[outline.start]}")
        lines.append(f"    style start fill:{INK},stroke:{INK}")
    for arrow in outline.arrows:
        label = f'|"{_escaped(arrow.label)}"|' if arrow.label else ""
        lines.append(f"    {names[arrow.source]} {LINES[arrow.kind]}{label} {names[arrow.target]}")
    used = {paint_name(box, by_progress) for box in outline.boxes}
    for name, paint in (OF_PROGRESS if by_progress else OF_TYPE).items():
        if name in used:
            colours = f"fill:{paint.fill},stroke:{paint.border},color:{INK}"
            # Suffixed, because `end` ends a subgraph even as the name of a class.
            lines.append(f"    classDef {name}Node {colours}")
    return "\n".join(lines) + "\n"


def _shape(box: Box) -> str:
    opening, closing = SHAPES[box.type]
    return f'{opening}"{_escaped(box.id)}<br/><small>{_escaped(box.caption)}</small>"{closing}'


def _escaped(text: str) -> str:
    """Escape special characters by number, so that Mermaid shows the text unchanged."""
    flat = " ".join(text.split())
    return SPECIAL.sub(lambda match: "".join(_number(char) for char in match[0]), flat)


def _number(char: str) -> str:
    return char if char.isspace() or not char.isascii() else f"#{ord(char)};"
