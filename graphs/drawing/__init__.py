"""Drawings of a graph: Mermaid, DOT, SVG and PNG, plain or coloured by a run's progress.

They show the edges that the file declares: `next`, `routes`, `on_other`, `fallback` and the
branches of maps. Where a script's `_next` leads is known only when it runs.
"""

from sleipnir.graphs.drawing.dot import to_dot
from sleipnir.graphs.drawing.mermaid import to_mermaid
from sleipnir.graphs.drawing.outline import Progress
from sleipnir.graphs.drawing.png import NoFonts, to_png
from sleipnir.graphs.drawing.svg import to_svg

__all__ = ["NoFonts", "Progress", "to_dot", "to_mermaid", "to_png", "to_svg"]
