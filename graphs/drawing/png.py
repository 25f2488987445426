"""A graph as a PNG image, rendered from the SVG."""

from __future__ import annotations

from collections.abc import Mapping

from sleipnir.graphs.drawing.outline import Progress
from sleipnir.graphs.drawing.svg import FONT, to_svg
from sleipnir.graphs.errors import GraphError
from sleipnir.graphs.schema import Graph
from sleipnir.lazy import lazy_imports

# Lazy: native code that only PNG needs.
with lazy_imports():
    import resvg_py

ZOOM = 2.0  # sharp on high-density screens and in print


class NoFonts(GraphError):
    """This machine has no fonts, so a PNG would show boxes without text."""

    def __init__(self) -> None:
        super().__init__("no fonts are installed here; draw an .svg, or install a sans-serif font")


def to_png(graph: Graph, progress: Mapping[str, Progress] | None = None) -> bytes:
    """Return the graph as PNG data.

    Raises:
        NoFonts: no font is installed on this machine.
    """
    if _render(_letters("")) == _render(_letters("abc")):
        raise NoFonts
    return _render(to_svg(graph, progress), ZOOM)


def _letters(text: str) -> str:
    return (
        '<svg xmlns="http://www.w3.org/2000/svg" width="40" height="20">'
        f'<text x="2" y="15" font-family="{FONT}">{text}</text></svg>'
    )


def _render(svg: str, zoom: float = 1.0) -> bytes:
    return bytes(resvg_py.svg_to_bytes(svg_string=svg, zoom=zoom))
