"""What native code does for drawings: it places boxes and arrows, and renders pixels.

It holds the interpreter until it is done, which takes minutes for some graphs. So processes that do
anything else leave it to others that can be stopped, as `sleipnir.scheduler.process.drawing` does.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from sleipnir.lazy import lazy_imports

# Lazy: the one is for layouts only, the other for PNG.
with lazy_imports():
    import graphlay
    import resvg_py


class Native(Protocol):
    """This module, or what calls it in another process."""

    def lay_out(self, graph: Mapping[str, Any], options: Mapping[str, Any]) -> Any: ...

    def render(self, svg: str, zoom: float) -> bytes: ...


def lay_out(graph: Mapping[str, Any], options: Mapping[str, Any]) -> Any:
    """Return graphlay's layout of a graph, both in its own form."""
    return graphlay.layout(graph, options=options).to_dict()


def render(svg: str, zoom: float) -> bytes:
    """Return an SVG document as PNG data."""
    return bytes(resvg_py.svg_to_bytes(svg_string=svg, zoom=zoom))
