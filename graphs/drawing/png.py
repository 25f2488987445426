"""A graph as a PNG image, rendered from the SVG."""

from __future__ import annotations

from math import sqrt
from typing import Final

from sleipnir.graphs.drawing.layout import place
from sleipnir.graphs.drawing.native import Native
from sleipnir.graphs.drawing.outline import Outline
from sleipnir.graphs.drawing.svg import FONT, size_of, svg_of
from sleipnir.graphs.errors import GraphError

ZOOM: Final = 2.0  # sharp on high-density screens and in print
# Larger drawings become less sharp: a pixel takes four bytes of memory.
MOST_PIXELS: Final = 50_000_000


class NoFonts(GraphError):
    """This machine has no fonts; a PNG would show boxes without text."""

    def __init__(self) -> None:
        super().__init__("no fonts are installed here; draw an .svg, or install a sans-serif font")


def to_png(outline: Outline, native: Native) -> bytes:
    """Return the graph as PNG data.

    Raises:
        NoFonts: no font is installed on this machine.
    """
    if native.render(_letters(""), 1.0) == native.render(_letters("abc"), 1.0):
        raise NoFonts
    picture = place(outline, native)
    width, height = size_of(picture)
    return native.render(svg_of(picture, outline), min(ZOOM, sqrt(MOST_PIXELS / (width * height))))


def _letters(text: str) -> str:
    return (
        '<svg xmlns="http://www.w3.org/2000/svg" width="40" height="20">'
        f'<text x="2" y="15" font-family="{FONT}">{text}</text></svg>'
    )
