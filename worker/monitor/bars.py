"""How many of all are in which state, as one bar."""

from __future__ import annotations

from collections.abc import Mapping

from sleipnir.worker.monitor.formats import word

_WIDTH = 600
_HEIGHT = 14


def bar_svg(counts: Mapping[str, int], total: int) -> str:
    """An SVG element with a part for each state that has any, in this order.

    Args:
        total: what the whole bar stands for; more than all counts where some have not begun.
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
