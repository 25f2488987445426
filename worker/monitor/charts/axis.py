"""An axis of time across a page, in percent of its width; long pauses are folded."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from sleipnir.records import dataclass

Span = tuple[int, int]  # begin and end, ms

# Longer pauses take no more room than this one.
_LONGEST_PAUSE_MS: Final = 60_000
_FOLDED: Final = 4.0  # width of a folded pause
_TICKS: Final = 8  # at most, if nothing is folded
_LEAST_APART: Final = 7.0
_STEPS_MS: Final = tuple(
    unit * count
    for unit, counts in (
        (1, (1, 2, 5, 10, 20, 50, 100, 200, 500)),
        (1_000, (1, 2, 5, 10, 15, 30)),
        (60_000, (1, 2, 5, 10, 15, 30)),
        (3_600_000, (1, 2, 6, 12)),
        (86_400_000, (1, 2, 5, 10, 50, 100)),
    )
    for count in counts
)


@dataclass(frozen=True, slots=True)
class Stretch:
    """A stretch of time, and its place on the page."""

    begin: int  # ms
    end: int
    left: float  # percent
    width: float
    is_folded: bool


@dataclass(frozen=True, slots=True)
class AxisMark:
    """A mark of the axis."""

    at: int  # ms
    since_ms: int  # the beginning of the run
    left: float  # percent


@dataclass(frozen=True, slots=True)
class Axis:
    """Where instants are on the page.

    Args:
        origin: what marks count from, ms.
        stretches: left to right, without gaps.
    """

    origin: int
    stretches: Sequence[Stretch]

    def place(self, at: int) -> float:
        """Return the place of an instant, in percent."""
        for stretch in self.stretches:
            if at <= stretch.end:
                length = stretch.end - stretch.begin
                share = (at - stretch.begin) / length if length else 0.0
                return stretch.left + stretch.width * max(0.0, share)
        return 100.0

    def shows(self, span: Span) -> bool:
        """Whether any of a span is on the page."""
        return span[1] >= self.stretches[0].begin and span[0] <= self.stretches[-1].end

    def marks(self) -> list[AxisMark]:
        """Return marks at round distances from the origin, none in what is folded."""
        shown = [stretch for stretch in self.stretches if not stretch.is_folded]
        total = sum(stretch.end - stretch.begin for stretch in shown)
        step = next((each for each in _STEPS_MS if each * _TICKS >= total), _STEPS_MS[-1])
        marks: list[AxisMark] = []
        for stretch in shown:
            first = -(-(stretch.begin - self.origin) // step) * step
            for since in range(first, stretch.end - self.origin + 1, step):
                left = self.place(self.origin + since)
                if not marks or left - marks[-1].left >= _LEAST_APART:
                    marks.append(AxisMark(self.origin + since, since, left))
        return marks


def axis_of(spans: Iterable[Span], window: Span | None = None) -> Axis | None:
    """Return the axis on which spans of time are shown; None if there are none.

    Args:
        window: only this part, ms since the first span's beginning.
    """
    found = sorted(spans)
    if not found:
        return None
    origin = found[0][0]
    if window is not None:
        since, until = origin + window[0], origin + max(window[1], window[0] + 1)
        inside = [(max(a, since), min(b, until)) for a, b in found if b >= since and a <= until]
        found = sorted([(since, since), *inside, (until, until)])
    return Axis(origin, _stretches(found))


def _stretches(spans: Sequence[Span]) -> list[Stretch]:
    busy: list[Span] = []
    for begin, end in spans:
        if busy and begin - busy[-1][1] <= _LONGEST_PAUSE_MS:
            busy[-1] = busy[-1][0], max(end, busy[-1][1])
        else:
            busy.append((begin, end))
    total = sum(end - begin for begin, end in busy) or 1
    folded = min(_FOLDED, 50 / len(busy))
    room = 100 - folded * (len(busy) - 1)
    found: list[Stretch] = []
    left = 0.0
    for begin, end in busy:
        if found:
            found.append(Stretch(found[-1].end, begin, left, folded, is_folded=True))
            left += folded
        share = room * (end - begin) / total
        found.append(Stretch(begin, end, left, share, is_folded=False))
        left += share
    return found
