"""The hours or days up to now that a chart covers."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final, Literal

from sleipnir.records import dataclass
from sleipnir.scheduler.store.clock import to_rfc3339
from sleipnir.scheduler.store.figures.by_time import DAY_MS, HOUR_MS, HOURS_OF_A_DAY, FiguresByTime
from sleipnir.scheduler.store.figures.sums import Sums, add_to

Period = Literal["24h", "7d", "30d"]
Per = Literal["hour", "day"]
# How each may be divided; at first as the first one says.
PERIODS: Final[Mapping[Period, tuple[Per, ...]]] = {
    "24h": ("hour",),
    "7d": ("day", "hour"),
    "30d": ("day",),
}
_DAYS: Final[Mapping[Period, int]] = {"24h": 1, "7d": 7, "30d": 30}


@dataclass(frozen=True, slots=True)
class Window:
    """Hours or days (UTC) since 1970; the one that is under way is the last."""

    per: Per
    slots: range

    @property
    def slot_ms(self) -> int:
        """The length of one."""
        return HOUR_MS if self.per == "hour" else DAY_MS

    @property
    def before(self) -> Window:
        """As many of them before these."""
        first, length = self.slots.start, len(self.slots)
        return Window(self.per, range(first - length, first))

    @property
    def days(self) -> range:
        """The days that they lie in."""
        if self.per == "day":
            return self.slots
        return range(self.slots[0] // HOURS_OF_A_DAY, self.slots[-1] // HOURS_OF_A_DAY + 1)

    @property
    def since_ms(self) -> int:
        """When the first one begins."""
        return self.slots.start * self.slot_ms

    def starts(self) -> list[str]:
        """Return when each of them begins."""
        return [to_rfc3339(slot * self.slot_ms) for slot in self.slots]

    def ends(self) -> str:
        """Return when the last one ends."""
        return to_rfc3339(self.slots.stop * self.slot_ms)

    def sums(self, figures: FiguresByTime, names: tuple[str, ...]) -> dict[int, Sums]:
        """Return the sums of each of them, by some names; none for those without any."""
        if self.per == "hour":
            return figures.by_hour(self.slots, names)
        return figures.by_day(self.slots, names)

    def total(self, figures: FiguresByTime, names: tuple[str, ...] = ()) -> Sums:
        """Return their sums together."""
        found: Sums = {}
        for sums in self.sums(figures, names).values():
            add_to(found, sums)
        return found


def window_of(now_ms: int, period: Period, per: Per | None = None) -> Window:
    """Return the last 24 hours, 7 or 30 days, with the one that is under way.

    Raises:
        ValueError: a period is not divided like that.
    """
    per = PERIODS[period][0] if per is None else per
    if per not in PERIODS[period]:
        raise ValueError(f"{period} is by {' or '.join(PERIODS[period])}, not by {per}")
    slot_ms, count = (HOUR_MS, HOURS_OF_A_DAY) if per == "hour" else (DAY_MS, 1)
    last = now_ms // slot_ms
    return Window(per, range(last + 1 - count * _DAYS[period], last + 1))


def hours_left(now_ms: int) -> float:
    """Return how many hours are left of the day (UTC)."""
    now = datetime.fromtimestamp(now_ms / 1000, tz=UTC)
    return HOURS_OF_A_DAY - now.hour - now.minute / 60 - now.second / 3600
