"""All items of a map at a glance, as rows of squares."""

from __future__ import annotations

from itertools import groupby

_ROW = 100
_SIDE = 8
_GAP = 2
# First letter of an item's state → class of its squares.
_CLASSES = {"d": "done", "f": "failed", "o": "queued", "l": "cancelled"}


def wall_svg(states: str, label: str) -> str:
    """Return an SVG element with one path per state.

    Neighbouring items of one state are one dashed line, so that ten thousand items are little to
    send and to draw.

    Args:
        states: the first letter of each item's state.
        label: its meaning, without characters that need escaping.
    """
    if not states:
        return ""
    pitch = _SIDE + _GAP
    lines: dict[str, list[str]] = {}
    for row, start in enumerate(range(0, len(states), _ROW)):
        column = 0
        for letter, neighbours in groupby(states[start : start + _ROW]):
            length = len(list(neighbours))
            lines.setdefault(letter, []).append(
                f"M{column * pitch} {row * pitch + _SIDE // 2}h{length * pitch - _GAP}"
            )
            column += length
    width = min(len(states), _ROW) * pitch
    height = -(-len(states) // _ROW) * pitch
    paths = "".join(
        f'<path class="state-{_CLASSES[letter]}" d="{"".join(parts)}" '
        f'stroke-width="{_SIDE}" stroke-dasharray="{_SIDE} {_GAP}"/>'
        for letter, parts in lines.items()
    )
    return (
        f'<svg class="wall" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'role="img" aria-label="{label}">{paths}</svg>'
    )
