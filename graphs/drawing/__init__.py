"""Drawings of a graph: Mermaid, DOT, SVG and PNG, plain or coloured by a run's progress.

outline.py   what is drawn: boxes and arrows
folding.py   fewer of them
layout.py    where they are, by native.py
page.py, svg.py, png.py, mermaid.py, dot.py   the formats
"""

from sleipnir.graphs.drawing.dot import to_dot
from sleipnir.graphs.drawing.mermaid import to_mermaid
from sleipnir.graphs.drawing.outline import Outline, Progress, outline_of, with_progress
from sleipnir.graphs.drawing.png import NoFonts, to_png
from sleipnir.graphs.drawing.svg import to_svg

__all__ = [
    "NoFonts",
    "Outline",
    "Progress",
    "outline_of",
    "to_dot",
    "to_mermaid",
    "to_png",
    "to_svg",
    "with_progress",
]
