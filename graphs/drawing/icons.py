"""A sign for each type of node, 16 by 16, drawn with lines."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

_PATHS: Final[Mapping[str, str]] = {
    # A head with an antenna: somebody else who works.
    "agent": "M3 6h10v7H3zM8 6V3M8 2.5v.1M6 9v1M10 9v1",
    # A person, and a tick.
    "approval": "M6 7.5a2.5 2.5 0 1 0 0-5 2.5 2.5 0 0 0 0 5zM1.5 13.5c0-5 9-5 9 0M10 6l2 2 3-3",
    # A store of texts.
    "build": "M2.5 4c0-2.5 11-2.5 11 0v8c0 2.5-11 2.5-11 0zM2.5 4c0 2.5 11 2.5 11 0",
    "end": "M4 14V2.5h8.5L10.5 6l2 3.5H4",
    # A bubble of speech.
    "input": "M2 3h12v8H7.5L4 13.8V11H2zM5 6h6M5 8.3h4",
    # A star: what a model thinks of.
    "llm": "M7 2l1.5 4L12.5 7.5 8.5 9 7 13 5.5 9 1.5 7.5 5.5 6zM13 11v3M11.5 12.5h3",
    # Several sheets.
    "map": "M8 2l6 3-6 3-6-3zM2 8l6 3 6-3M2 11l6 3 6-3",
    # A magnifying glass.
    "rag": "M7 11.5a4.5 4.5 0 1 0 0-9 4.5 4.5 0 0 0 0 9zM10.2 10.2L14 14",
    "row": "M3 8h.1M8 8h.1M13 8h.1",
    # A prompt.
    "script": "M2 4l4 4-4 4M8 12h6",
    "set": "M3 6h10M3 10h10",
}


_OTHER: Final = "M8 13a5 5 0 1 0 0-10 5 5 0 0 0 0 10z"


def icon_of(node_type: str) -> str:
    """Return the sign as the content of an SVG element, in the colours of its surroundings."""
    return (
        f'<rect width="16" height="16" stroke="none"/><path d="{_PATHS.get(node_type, _OTHER)}"/>'
    )
