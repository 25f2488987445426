"""Parses time bounds: `15m`, `4h`, `7d`, or RFC 3339 instants; durations; and days."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta

from sleipnir.records import dataclass

_UNITS_S = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}
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
        return duration_text(self.ms // 1000)


def duration_of(text: str) -> int:
    """Return the seconds of `30s`, `15m`, `2h` or `1d`.

    Raises:
        ValueError: it is none of these.
    """
    found = _AGE.fullmatch(text)
    if found is None:
        raise ValueError(f"{text[:40]!a} is not a duration such as 30s, 15m, 2h or 1d")
    return int(found[1]) * _UNITS_S[found[2]]


def duration_text(seconds: int) -> str:
    """Return the shortest text of a duration, which `duration_of` reads."""
    for unit in ("d", "h", "m"):
        if seconds and seconds % _UNITS_S[unit] == 0:
            return f"{seconds // _UNITS_S[unit]}{unit}"
    return f"{seconds}s"


def parse_time_bound(text: str) -> TimeBound:
    """Parse a time bound.

    Raises:
        ValueError: it is invalid; says what is valid.
    """
    if _AGE.fullmatch(text):
        return TimeBound(1000 * duration_of(text), is_age=True)
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
        if _AGE.fullmatch(text):
            at_ms = now_ms - 1000 * duration_of(text)
            return (_EPOCH + timedelta(milliseconds=max(0, at_ms))).date()
        return date.fromisoformat(text)
    except ValueError:
        raise ValueError(
            f"{text!a} is neither a day such as 2026-03-02 nor an age such as 7d"
        ) from None
