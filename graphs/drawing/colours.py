"""The colours of nodes: by type, or by progress once there is any."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from sleipnir.graphs.drawing.outline import Box
from sleipnir.records import dataclass

INK: Final = "#1f2933"
LINE: Final = "#64748b"


@dataclass(frozen=True, slots=True)
class Paint:
    fill: str
    border: str


OF_TYPE: Final[Mapping[str, Paint]] = {
    "agent": Paint("#e3f4f0", "#23806f"),
    "approval": Paint("#fff3d6", "#b7791f"),
    "build": Paint("#e2effb", "#2f6fad"),
    "end": Paint("#e5e7eb", "#4b5563"),
    "input": Paint("#fff3d6", "#b7791f"),
    "llm": Paint("#efe9fd", "#6d4bc9"),
    "map": Paint("#eef3d6", "#66781a"),
    "rag": Paint("#e2effb", "#2f6fad"),
    "script": Paint("#f1f5f9", "#64748b"),
    "set": Paint("#f1f5f9", "#64748b"),
}
OF_PROGRESS: Final[Mapping[str, Paint]] = {
    "done": Paint("#dcf5e3", "#23803f"),
    "tolerated": Paint("#ffe8d1", "#c2570c"),
    "queued": Paint("#ffffff", "#1d5fd1"),
    "running": Paint("#dbeafe", "#1d5fd1"),
    "waiting": Paint("#fff0c9", "#b7791f"),
    "staged": Paint("#f0faf3", "#7fb58f"),
    "failed": Paint("#fde2e2", "#c42b2b"),
    "interrupted": Paint("#f1f3f5", "#6b7280"),
    "cancelled": Paint("#e5e7eb", "#4b5563"),
    "timed_out": Paint("#fde2e2", "#c42b2b"),
    "untouched": Paint("#ffffff", "#b6bfca"),
}


def paint_name(box: Box, coloured_by_progress: bool) -> str:
    """Return the key of a box's paint."""
    if coloured_by_progress:
        return box.progress or "untouched"
    return box.type


def paint_of(box: Box, coloured_by_progress: bool) -> Paint:
    """Return the paint of a box."""
    paints = OF_PROGRESS if coloured_by_progress else OF_TYPE
    return paints[paint_name(box, coloured_by_progress)]
