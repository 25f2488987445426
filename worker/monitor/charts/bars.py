"""Bar charts: the shares of states in a whole, and a column for each hour."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from sleipnir.worker.monitor.formats import usd, word

if TYPE_CHECKING:
    from sleipnir.scheduler.runs.documents import RecentSpendingDocument

_WIDTH = 600
_HEIGHT = 14
_HIGH = 48


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


def days_svg(spent: RecentSpendingDocument) -> str:
    """Return an SVG column chart of what each day has cost; nothing if that is nothing."""
    costs = [row["cost_usd"] for row in spent["days"]]
    told = [f"{row['day']}: {usd(row['cost_usd'])}" for row in spent["days"]]
    return columns_svg(costs, "spent by day", told) if any(costs) else ""


def columns_svg(numbers: Sequence[float], label: str, told: Sequence[str] | None = None) -> str:
    """Return an SVG column chart of the numbers, scaled to the greatest.

    Args:
        label: what the numbers are; inserted into the SVG without escaping, as is `told`.
        told: the columns' titles; None: the numbers.
    """
    titles = [f"{number:,}" for number in numbers] if told is None else told
    most = max(numbers, default=0)
    pitch = _WIDTH // max(1, len(numbers))
    columns = "".join(
        f'<rect x="{at * pitch}" y="{_HIGH - high:.1f}" width="{pitch - 3}" height="{high:.1f}">'
        f"<title>{titles[at]}</title></rect>"
        for at, number in enumerate(numbers)
        if (high := max(_HIGH * number / most, 1.0) if number else 0.0)
    )
    return (
        f'<svg class="columns" viewBox="0 0 {_WIDTH} {_HIGH}" width="{_WIDTH}" height="{_HIGH}" '
        f'role="img" aria-label="{label}: {", ".join(told or map(str, numbers))}">{columns}</svg>'
    )
