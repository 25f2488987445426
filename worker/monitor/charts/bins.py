"""Histograms: a column for each part of time or of a range of numbers, and small ones for tiles."""

from __future__ import annotations

from collections.abc import Sequence
from math import floor, log10
from typing import Final
from xml.sax.saxutils import escape

from tornado.escape import xhtml_escape

from sleipnir.records import dataclass

WIDE: Final = 460
NARROW: Final = 300
_HIGH: Final = 112
_LEFT: Final = 44
_TOP: Final = 8
_BOTTOM: Final = 20
_LABELS: Final = 4  # below the columns, at most
_LETTER: Final = 6.4  # px, of a label
_SPARK: Final = (80, 24)


@dataclass(frozen=True, slots=True)
class Bin:
    """One column, of parts that stand on each other."""

    begin: str  # what stands below its left edge
    title: str
    parts: tuple[tuple[str, float], ...]  # class of each, and its number

    @property
    def total(self) -> float:
        return sum(number for _, number in self.parts)


def bins_svg(bins: Sequence[Bin], label: str, width: int = WIDE, every: int = 1) -> str:
    """Return a histogram with its axes, as HTML: an SVG whose columns can be read out by keys.

    Args:
        label: one sentence that says what it shows.
        width: px, if it is neither stretched nor shrunk.
        every: how many columns there are to a label, at least.
    """
    if not bins:
        return ""
    most = _round_number(max(each.total for each in bins) or 1)
    pitch = (width - _LEFT) / len(bins)
    columns = "".join(
        _column(each, _LEFT + at * pitch, pitch, most) for at, each in enumerate(bins)
    )
    height = _TOP + _HIGH + _BOTTOM
    told = xhtml_escape(label)
    return (
        f'<div class="plotted" data-bins tabindex="0" role="group" aria-label="{told}; arrow keys '
        f'show single columns"><svg class="bins" viewBox="0 0 {width} {height}" width="{width}" '
        f'height="{height}" role="img" aria-label="{told}">{_lines(most, width)}{columns}'
        f"{_labels(bins, pitch, width, every)}</svg></div>"
    )


def _column(each: Bin, left: float, pitch: float, most: float) -> str:
    gap = 1.0 if pitch > 4 else 0.0  # thinner ones would be gaps only
    parts, base = [], float(_TOP + _HIGH)
    for name, number in each.parts:
        high = max(_HIGH * number / most, 1.0) if number else 0.0
        base -= high
        if number:
            parts.append(
                f'<rect class="{name}" x="{left:.1f}" y="{base:.1f}" '
                f'width="{pitch - gap:.1f}" height="{high:.1f}"/>'
            )
    # Where there is little, the whole height is the target.
    return (
        f"<g><title>{escape(each.title)}</title>"
        f'<rect class="target" x="{left:.1f}" y="{_TOP}" width="{pitch:.1f}" height="{_HIGH}"/>'
        f"{''.join(parts)}</g>"
    )


def _lines(most: float, width: int) -> str:
    lines = []
    for share in (0.0, 0.5, 1.0):
        y = _TOP + _HIGH * (1 - share)
        lines.append(
            f'<path class="grid" d="M{_LEFT} {y:.1f}H{width}"/>'
            f'<text class="tick" x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">'
            f"{most * share:,.10g}</text>"
        )
    return "".join(lines)


def _labels(bins: Sequence[Bin], pitch: float, width: int, least: int) -> str:
    widest = max(len(each.begin) for each in bins) * _LETTER + 16
    every = least if least > 1 else max(1, -(-len(bins) // _LABELS), int(-(-widest // pitch)))
    y = _TOP + _HIGH + 15
    found = []
    for at in range(0, len(bins), every):
        left = _LEFT + at * pitch
        if left + len(bins[at].begin) * _LETTER <= width:
            text = escape(bins[at].begin)
            found.append(f'<text class="tick" x="{left:.1f}" y="{y}">{text}</text>')
    return "".join(found)


def _round_number(least: float) -> float:
    """Return a round number whose half is round, too, that is not below a positive one."""
    power = 10.0 ** floor(log10(least))
    return next(power * each for each in (2, 4, 6, 8, 10) if power * each >= least)


def spark_svg(numbers: Sequence[float], label: str) -> str:
    """Return a small SVG column chart without axes; nothing if all numbers are 0."""
    most = max(numbers, default=0)
    if not most:
        return ""
    width, height = _SPARK
    pitch = width / len(numbers)
    path = "".join(
        f"M{at * pitch:.1f} {height}v-{max(height * number / most, 1.5):.1f}"
        f"h{max(pitch - 1, 1):.1f}V{height}z"
        for at, number in enumerate(numbers)
        if number
    )
    return (
        f'<svg class="spark" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'role="img" aria-label="{escape(label)}"><path d="{path}"/></svg>'
    )
