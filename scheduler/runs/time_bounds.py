"""Parses time bounds: `15m`, `4h`, `7d`, or RFC 3339 instants; and days."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta

from sleipnir.records import dataclass

_UNITS_MS = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_AGE = re.compile(r"(\d{1,9})([smhd])", re.ASCII)
_EPOCH = datetime.fromtimestamp(0, tz=UTC)
_INSTANT = re.compile(
    r"(\d{4}-\d\d-\d\d)[Tt ](\d\d:\d\d:\d\d)(\.\d+)?([Zz]|[+-]\d\d:\d\d)", re.ASCII
)


@dataclass(frozen=True, slots=True)
class TimeBound:
    """An instant, or an age: how long ago an instant was."""

    ms: int  # since the epoch, or the age
    is_age: bool

    def at(self, now_ms: int) -> int:
        """Return the instant in ms."""
        return max(0, now_ms - self.ms) if self.is_age else self.ms

    def __str__(self) -> str:
        """Return it as it can be parsed again; an age stays an age."""
        if not self.is_age:
            return (_EPOCH + timedelta(milliseconds=self.ms)).isoformat()
        unit = max((ms, name) for name, ms in _UNITS_MS.items() if self.ms % ms == 0)
        return f"{self.ms // unit[0]}{unit[1]}"


def parse_time_bound(text: str) -> TimeBound:
    """Parse a time bound.

    Raises:
        ValueError: it is invalid; says what is valid.
    """
    if age := _AGE.fullmatch(text):
        return TimeBound(int(age[1]) * _UNITS_MS[age[2]], is_age=True)
    instant = _INSTANT.fullmatch(text)
    try:
        if instant is None:
            raise ValueError(text)
        day, time, fraction, zone = instant.groups()
        # Digits beyond microseconds are ignored.
        fine = (fraction or ".0")[:7].ljust(7, "0")
        zone = "+00:00" if zone in "Zz" else zone
        since_epoch = datetime.fromisoformat(f"{day}T{time}{fine}{zone}") - _EPOCH
    except (ValueError, OverflowError):
        raise ValueError(
            f"{text!a} is neither an age such as 15m, 4h or 7d "
            "nor an instant such as 2026-03-02T08:30:00Z"
        ) from None
    return TimeBound(max(0, since_epoch // timedelta(milliseconds=1)), is_age=False)


def parse_day(text: str, now_ms: int) -> date:
    """Parse a day in UTC: `2026-11-27`, or `7d` for the day that was seven days ago.

    Raises:
        ValueError: it is invalid; says what is valid.
    """
    try:
        if age := _AGE.fullmatch(text):
            at_ms = now_ms - int(age[1]) * _UNITS_MS[age[2]]
            return (_EPOCH + timedelta(milliseconds=max(0, at_ms))).date()
        return date.fromisoformat(text)
    except ValueError:
        raise ValueError(
            f"{text!a} is neither a day such as 2026-03-02 nor an age such as 7d"
        ) from None
