"""Bars: the shares of states in a whole, and a number's share of it."""

from __future__ import annotations

from collections.abc import Mapping

from sleipnir.worker.monitor.formats import word

_WIDTH = 600
_HEIGHT = 14


def bar_svg(counts: Mapping[str, int], total: int) -> str:
    """Return an SVG bar with a part for each state whose count is not 0, in the order of `counts`.

    Args:
        total: what the whole bar stands for; exceeds the sum of `counts` if some have not begun.
    """
    whole = max(total, sum(counts.values()))
    if not whole:
        return ""
    told = ", ".join(f"{count:,} {word(state)}" for state, count in counts.items() if count)
    parts, left = [], 0.0
    for state, count in counts.items():
        width = _WIDTH * count / whole
        if count:
            parts.append(
                f'<rect class="state-{state}" x="{left:.1f}" width="{max(width, 1.0):.1f}" '
                f'height="{_HEIGHT}"/>'
            )
        left += width
    return (
        f'<svg class="share-bar" viewBox="0 0 {_WIDTH} {_HEIGHT}" width="{_WIDTH}" '
        f'height="{_HEIGHT}" preserveAspectRatio="none" role="img" '
        f'aria-label="{told} of {whole:,}">{"".join(parts)}</svg>'
    )


def share_bar_svg(part: float, whole: float) -> str:
    """Return an SVG bar for a cell of a table, which has the number beside it."""
    width = 100 * part / whole if whole else 0
    return (
        '<svg class="cell-bar" viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true">'
        f'<rect width="{width:.1f}" height="8"/></svg>'
    )
