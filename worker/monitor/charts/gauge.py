"""A small bar beside a number: how it compares with what is usual."""

from __future__ import annotations

from typing import Final

from sleipnir.worker.monitor.formats import span

_WIDTH: Final = 40
_HEIGHT: Final = 4


def gauge_svg(elapsed_s: float, usual_s: float) -> str:
    """Return an SVG bar that is full once something takes as long as 95 % of its kind stay below.

    Args:
        usual_s: what 95 % stay below; above 0.
    """
    width = min(1.0, elapsed_s / usual_s) * _WIDTH
    style = "gauge is-over" if elapsed_s > usual_s else "gauge"
    told = f"95 % take at most {span(usual_s)}"
    return (
        f'<svg class="{style}" width="{_WIDTH}" height="{_HEIGHT}" role="img" aria-label="{told}">'
        f'<title>{told}</title><rect width="{_WIDTH}" height="{_HEIGHT}" rx="2"/>'
        f'<rect class="part" width="{width:.1f}" height="{_HEIGHT}" rx="2"/></svg>'
    )
