"""Instants of cron lines and intervals, at the changes to and from summer time too."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from itertools import islice
from zoneinfo import ZoneInfo

import pytest

from sleipnir.scheduler.runs.schedules.instants import after, due_at, next_after
from sleipnir.scheduler.runs.schedules.model import Timing

# North and south, and one zone without summer time, half an hour off.
ZONES = (
    *("Europe/Berlin", "America/New_York", "America/Sao_Paulo"),
    *("Australia/Sydney", "Asia/Kolkata", "Pacific/Auckland"),
)
# Days around both changes of 2027 in these zones.
WINDOWS = ((3, 13, 18), (3, 27, 12), (9, 25, 4), (10, 2, 4), (10, 30, 12), (11, 6, 18), (4, 3, 4))


def ms(instant: datetime) -> int:
    return round(instant.timestamp() * 1000)


def matches(fields: tuple[str, ...], wall: datetime) -> bool:
    """Whether a minute on the clock on the wall is one of a line, by the book."""
    values = (wall.minute, wall.hour, wall.day, wall.month, wall.isoweekday() % 7)
    minute, hour, day, month, weekday = (
        _is_in(field, value, least)
        for field, value, least in zip(fields, values, (0, 0, 1, 1, 0), strict=True)
    )
    both = fields[2].startswith("*") or fields[4].startswith("*")
    on_day = (day and weekday) if both else (day or weekday)
    return minute and hour and on_day and month


def _is_in(field: str, value: int, least: int) -> bool:
    for part in field.split(","):
        span, _, step = part.partition("/")
        first, _, last = span.partition("-")
        low = least if span == "*" else int(first)
        high = 59 if span == "*" or (step and not last) else int(last or first)
        if low <= value <= high and (value - low) % int(step or 1) == 0:
            return True
    return False


def by_the_book(line: str, zone: ZoneInfo, start: datetime, hours: int) -> list[int]:
    """The instants of a line, as the manual of Debian's cron has them.

    Jobs at given hours run right after an hour that is skipped, and once in one that is repeated;
    others follow the clock as it is.
    """
    fields = tuple(line.split())
    is_fixed = not fields[0].startswith("*") and not fields[1].startswith("*")
    found: list[int] = []
    if not is_fixed:
        for minute in range(1, hours * 60 + 1):
            instant = start + timedelta(minutes=minute)
            if matches(fields, instant.astimezone(zone)):
                found.append(ms(instant))
        return found
    wall = start.astimezone(zone).replace(tzinfo=None) - timedelta(hours=2)
    for minute in range(hours * 60 + 240):
        at = wall + timedelta(minutes=minute)
        if matches(fields, at):
            # Where it is skipped, the offset before the change counts: that is after the gap.
            instant = at.replace(tzinfo=zone, fold=0).astimezone(UTC)
            if at.replace(tzinfo=zone).astimezone(UTC).astimezone(zone).replace(tzinfo=None) != at:
                instant = _after_gap(instant, zone)
            if start < instant <= start + timedelta(hours=hours):
                found.append(ms(instant))
    return sorted(set(found))


def _after_gap(instant: datetime, zone: ZoneInfo) -> datetime:
    """The first minute after the gap that a wall clock's minute fell into."""
    while (
        instant.astimezone(zone).utcoffset()
        == (instant - timedelta(minutes=1)).astimezone(zone).utcoffset()
    ):
        instant -= timedelta(minutes=1)
    return instant


def lines() -> list[str]:
    """200 lines, always the same."""
    chance = random.Random(2027)
    made = []
    while len(made) < 200:
        minute = chance.choice(["0", "30", "15,45", "*/20", "59", "5-10", "*"])
        hour = chance.choice(["*", "2", "1-3", "0,2", "*/6", "3", "1", "9"])
        day = chance.choice(["*", "*", "*/2", "14", "28,31"])
        weekday = chance.choice(["*", "*", "0", "1-5", "6"])
        made.append(f"{minute} {hour} {day} * {weekday}")
    return made


@pytest.mark.parametrize("zone", ZONES)
def test_lines_are_due_as_the_book_says_around_both_changes_of_the_clock(zone: str) -> None:
    wrong = []
    for number, line in enumerate(lines()):
        month, day, hour = WINDOWS[number % len(WINDOWS)]
        start = datetime(2027, month, day, hour, tzinfo=UTC)
        expected = by_the_book(line, ZoneInfo(zone), start, 36)
        last = ms(start + timedelta(hours=36))
        found = []
        for instant in after(Timing(cron=(line,), timezone=zone), ms(start)):
            if instant > last:
                break
            found.append(instant)
        if found != expected:
            wrong.append((line, start, sorted(set(found) ^ set(expected))))

    assert wrong == []


def test_several_lines_are_one_list_without_repetitions() -> None:
    timing = Timing(cron=("0 * * * *", "*/30 * * * *"))

    found = list(islice(after(timing, 0), 4))

    assert found == [1_800_000, 3_600_000, 5_400_000, 7_200_000]


def test_an_interval_has_an_offset_a_start_and_an_end() -> None:
    timing = Timing(every_s=900, offset_s=120, start_ms=1_020_000, end_ms=2_820_000)

    assert list(after(timing, 0)) == [1_020_000, 1_920_000]
    assert next_after(timing, 1_920_000) is None


def test_jitter_is_the_same_for_an_instant_and_not_more_than_asked_for() -> None:
    timing = Timing(every_s=60, jitter_s=30)
    delays = [due_at("news", timing, instant) - instant for instant in range(0, 6_000_000, 60_000)]

    assert delays[0] == due_at("news", timing, 0)
    assert all(0 <= delay < 30_000 for delay in delays)
    assert len(set(delays)) > 90
