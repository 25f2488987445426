"""All items of a map at a glance, as rows of squares."""

from __future__ import annotations

from collections.abc import Callable
from itertools import groupby
from math import ceil
from typing import Final

from tornado.escape import xhtml_escape

_ROW = 100
_SIDE = 8
_GAP = 2
_PITCH = _SIDE + _GAP
# First letter of an item's state → class of its squares, the worst first.
_CLASSES: Final = {"f": "failed", "o": "queued", "l": "cancelled", "d": "done"}
# From more items on, a square stands for several, so that all fit into so many rows.
_MOST_ITEMS: Final = 2_000
_FOLDED_ROWS: Final = 12


def wall_svg(states: str, label: str, place: Callable[[int], str]) -> str:
    """Return an SVG element with one path per state, and a link for each row.

    Neighbouring squares of one state are one dashed line, so that ten thousand items are little to
    send and to draw. A square of several items has the worst of their states.

    Args:
        states: the first letter of each item's state.
        label: its meaning, without characters that need escaping.
        place: returns the address at which the items from an index on are listed.
    """
    if not states:
        return ""
    each = 1 if len(states) <= _MOST_ITEMS else ceil(len(states) / (_ROW * _FOLDED_ROWS))
    squares = states if each == 1 else _folded(states, each)
    width = min(len(squares), _ROW) * _PITCH
    height = ceil(len(squares) / _ROW) * _PITCH
    rows = "".join(
        _row_link(row, min(len(states), (row + 1) * _ROW * each), each, width, place)
        for row in range(ceil(len(squares) / _ROW))
    )
    return (
        f'<svg class="wall" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'role="group" aria-label="{label}" data-each="{each}" data-total="{len(states)}">'
        f"{_paths(squares)}{rows}</svg>"
    )


def _folded(states: str, each: int) -> str:
    bins = (set(states[start : start + each]) for start in range(0, len(states), each))
    return "".join(next(letter for letter in _CLASSES if letter in found) for found in bins)


def _paths(squares: str) -> str:
    lines: dict[str, list[str]] = {}
    for row, start in enumerate(range(0, len(squares), _ROW)):
        column = 0
        for letter, neighbours in groupby(squares[start : start + _ROW]):
            length = len(list(neighbours))
            lines.setdefault(letter, []).append(
                f"M{column * _PITCH} {row * _PITCH + _SIDE // 2}h{length * _PITCH - _GAP}"
            )
            column += length
    return "".join(
        f'<path class="state-{_CLASSES[letter]}" d="{"".join(parts)}" '
        f'stroke-width="{_SIDE}" stroke-dasharray="{_SIDE} {_GAP}"/>'
        for letter, parts in lines.items()
    )


def _row_link(row: int, end: int, each: int, width: int, place: Callable[[int], str]) -> str:
    """Return a link over a row; with scripts it leads to the square under the pointer."""
    start = row * _ROW * each
    return (
        f'<a href="{xhtml_escape(place(start))}" tabindex="-1" '
        f'aria-label="items {start:,} to {end - 1:,}">'
        f'<rect y="{row * _PITCH}" width="{width}" height="{_PITCH}"/></a>'
    )
