"""Intervals: from where to where a difference may be, beside zero and what it may be at least."""

from __future__ import annotations

from typing import Final

_WIDTH: Final = 160
_HEIGHT: Final = 24
_MARGIN: Final = 6


def interval_svg(
    mean: float, low: float | None, high: float | None, bound: float | None, widest: float
) -> str:
    """Return an SVG of an interval for a cell of a table, which has the numbers beside it.

    Args:
        bound: a difference below this one is a loss; None: there is no telling.
        widest: what is at the right edge, and as far below zero at the left one.
    """
    middle = _HEIGHT / 2

    def place(value: float) -> float:
        share = max(-1.0, min(1.0, value / widest)) if widest else 0.0
        return _WIDTH / 2 + share * (_WIDTH / 2 - _MARGIN)

    parts = [f'<path class="zero" d="M{place(0):.1f} 0V{_HEIGHT}"/>']
    if bound is not None:
        parts.append(f'<path class="bound" d="M{place(bound):.1f} 0V{_HEIGHT}"/>')
    if low is not None and high is not None:
        left, right = place(low), place(high)
        parts.append(
            f'<path class="between" d="M{left:.1f} {middle - 4}v8M{left:.1f} {middle}H{right:.1f}'
            f'M{right:.1f} {middle - 4}v8"/>'
        )
    parts.append(f'<circle cx="{place(mean):.1f}" cy="{middle}" r="4"/>')
    return (
        f'<svg class="interval" viewBox="0 0 {_WIDTH} {_HEIGHT}" width="{_WIDTH}" '
        f'height="{_HEIGHT}" aria-hidden="true">{"".join(parts)}</svg>'
    )
