"""All items of a map at a glance: a square each, in rows."""

from __future__ import annotations

_ROW = 100
_SIDE = 8
_GAP = 2
# The first letter of an item's state, and the class of its squares.
_CLASSES = {"d": "done", "f": "failed", "o": "queued", "l": "cancelled"}


def wall_svg(states: str, label: str) -> str:
    """An SVG element with one path for each state: ten thousand squares stay small.

    Args:
        states: the first letter of each item's state.
        label: what it shows, without characters that would need escaping.
    """
    if not states:
        return ""
    pitch = _SIDE + _GAP
    squares: dict[str, list[str]] = {}
    for index, letter in enumerate(states):
        row, column = divmod(index, _ROW)
        squares.setdefault(letter, []).append(
            f"M{column * pitch} {row * pitch}h{_SIDE}v{_SIDE}h-{_SIDE}z"
        )
    width = min(len(states), _ROW) * pitch
    height = -(-len(states) // _ROW) * pitch
    paths = "".join(
        f'<path class="state-{_CLASSES[letter]}" d="{"".join(parts)}"/>'
        for letter, parts in squares.items()
    )
    return (
        f'<svg class="wall" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'role="img" aria-label="{label}">{paths}</svg>'
    )
