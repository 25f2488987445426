"""The instants of a schedule: cron lines, and fixed intervals.

All instants are whole ms since 1970 in UTC. Cron lines mean what they mean to Debian's cron: the
library `cronsim` says when they are due, daylight saving time included.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, tzinfo
from functools import lru_cache
from hashlib import sha256
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

from sleipnir.graphs.document.finding import cut, printable
from sleipnir.scheduler.errors import SubmissionRefused
from sleipnir.scheduler.runs.schedules.model import Timing

_EPOCH = datetime.fromtimestamp(0, tz=UTC)
_LONGEST_LINE = 200  # characters
_MOST_LINES = 32
_ALIASES = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}


def require_timing(timing: Timing) -> None:
    """Check that a schedule's instants can be computed, and that there are any.

    Raises:
        SubmissionRefused: a line or the time zone is not valid, or there is no instant.
    """
    if bool(timing.cron) == (timing.every_s is not None):
        raise SubmissionRefused("a schedule needs either --cron or --every: give one of them")
    if timing.offset_s and timing.every_s is None:
        raise SubmissionRefused("--offset belongs to --every; a cron line says its own minute")
    if len(timing.cron) > _MOST_LINES:
        raise SubmissionRefused(f"{len(timing.cron)} cron lines; a schedule may have {_MOST_LINES}")
    zone_of(timing.timezone)
    for line in timing.cron:
        _require_line(line)
    start, end = timing.start_ms, timing.end_ms
    if start is not None and end is not None and end <= start:
        raise SubmissionRefused("--end must be after --start")


def _require_line(line: str) -> None:
    problem: object = None
    if len(line) > _LONGEST_LINE or len(_expanded(line).split()) != 5:
        problem = "expected five fields, such as '0 9 * * 1-5', or @hourly, @daily, @weekly …"
    try:
        if problem is None:
            next(CronSim(_expanded(line), _EPOCH))
    except CronSimError as error:
        problem = str(error)[:1].lower() + str(error)[1:]
    except StopIteration:
        problem = "it is never due"
    if problem is not None:
        raise SubmissionRefused(f"cron line '{cut(printable(line), 80)}': {problem}")


def _expanded(line: str) -> str:
    return _ALIASES.get(line.strip().lower(), line)


@lru_cache(maxsize=1_000)
def zone_of(name: str) -> tzinfo:
    """Return a time zone by its IANA name.

    Raises:
        SubmissionRefused: there is none of that name.
    """
    if name == "UTC":
        return UTC
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError) as error:
        raise SubmissionRefused(
            f"there is no time zone '{cut(printable(name), 80)}': use a name such as "
            "Europe/Berlin or UTC"
        ) from error


def after(timing: Timing, at_ms: int) -> Iterator[int]:
    """Yield the instants after one, in order and without end unless the schedule has one."""
    first = at_ms if timing.start_ms is None else max(at_ms, timing.start_ms - 1)
    found = _repeated(timing, first) if timing.every_s is not None else _of_lines(timing, first)
    for instant in found:
        if timing.end_ms is not None and instant >= timing.end_ms:
            return
        yield instant


def next_after(timing: Timing, at_ms: int) -> int | None:
    """Return the first instant after one; None if there is none."""
    return next(after(timing, at_ms), None)


def due_at(name: str, timing: Timing, instant: int) -> int:
    """Return when an instant fires: later by its share of the schedule's jitter."""
    if not timing.jitter_s:
        return instant
    share = int.from_bytes(sha256(f"{name} {instant}".encode()).digest()[:4]) / 2**32
    return instant + int(1000 * timing.jitter_s * share)


def _repeated(timing: Timing, at_ms: int) -> Iterator[int]:
    assert timing.every_s is not None
    every, offset = 1000 * timing.every_s, 1000 * timing.offset_s
    instant = at_ms - (at_ms - offset) % every
    while True:
        instant += every
        yield instant


def _of_lines(timing: Timing, at_ms: int) -> Iterator[int]:
    lines = [_of_line(line, timing.timezone, at_ms) for line in timing.cron]
    last = at_ms
    for instant in heapq.merge(*lines):
        if instant > last:  # lines may share instants
            yield instant
            last = instant


def _of_line(line: str, timezone: str, at_ms: int) -> Iterator[int]:
    start = (_EPOCH + timedelta(milliseconds=at_ms)).astimezone(zone_of(timezone))
    # Where clocks are set back, the hour's second part begins with instants before `at_ms`.
    for instant in CronSim(_expanded(line), start):
        ms = (instant.astimezone(UTC) - _EPOCH) // timedelta(milliseconds=1)
        if ms > at_ms:
            yield ms
