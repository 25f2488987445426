"""What a schedule does next: which instants start a run, wait, are skipped or were missed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import islice

from sleipnir.records import dataclass
from sleipnir.scheduler.runs.schedules.instants import after, due_at, next_after
from sleipnir.scheduler.runs.schedules.model import MOST_BUFFERED, Overlap, Schedule

MOST_CAUGHT_UP = 100  # instants that fire late
_AT_ONCE = 10_000  # instants that were missed, examined at once


@dataclass(frozen=True, slots=True)
class Firing:
    """One change of a schedule: at most one run starts, and this is how it stands then."""

    schedule: Schedule
    instant: int | None = None  # whose run starts
    cancels: bool = False  # the open run is cancelled first


def next_firing(schedule: Schedule, now_ms: int, *, is_open: bool) -> Firing | None:
    """Return what is to be done now; None if nothing is.

    Args:
        is_open: whether the last run, or that of the session, has not ended.
    """
    if schedule.is_paused:
        return None
    if schedule.buffered and not is_open:
        first, *others = schedule.buffered
        return Firing(replace(schedule, buffered=tuple(others)), first)
    schedule, missed = _without_missed(schedule, now_ms)
    instant = schedule.next_ms
    if instant is None or due_at(schedule.name, schedule.timing, instant) > now_ms:
        return Firing(schedule) if missed else None
    following = replace(schedule, next_ms=next_after(schedule.timing, instant))
    return at_instant(following, instant, is_open=is_open)


def at_instant(schedule: Schedule, instant: int, *, is_open: bool) -> Firing:
    """Return what an instant that is due does."""
    if not is_open or schedule.overlap == Overlap.ALLOW_ALL:
        return Firing(schedule, instant)
    match schedule.overlap:
        case Overlap.CANCEL_OTHER:
            return Firing(schedule, instant, cancels=True)
        case Overlap.BUFFER_ONE:
            return Firing(_buffering(schedule, [instant]))
        case Overlap.BUFFER_ALL if len(schedule.buffered) < MOST_BUFFERED:
            return Firing(_buffering(schedule, [*schedule.buffered, instant]))
        case _:
            return Firing(replace(schedule, skipped=schedule.skipped + 1))


def _buffering(schedule: Schedule, buffered: Sequence[int]) -> Schedule:
    skipped = len(schedule.buffered) + 1 - len(buffered)
    return replace(schedule, buffered=tuple(buffered), skipped=schedule.skipped + skipped)


def paused(schedule: Schedule, reason: str) -> Schedule:
    """Return a schedule that fires no more until it is resumed; what waited is skipped."""
    return replace(
        schedule,
        paused=reason,
        next_ms=None,
        buffered=(),
        skipped=schedule.skipped + len(schedule.buffered),
    )


def resumed(schedule: Schedule, now_ms: int) -> Schedule:
    """Return a schedule that fires from now on; instants before do not count as missed."""
    return replace(schedule, paused=None, next_ms=next_after(schedule.timing, now_ms))


def _without_missed(schedule: Schedule, now_ms: int) -> tuple[Schedule, bool]:
    """Return a schedule without the instants that are too late to fire, and whether there were any.

    Those of a long time are counted in portions: until the next call, the schedule stays due.
    """
    if schedule.next_ms is None or schedule.next_ms > now_ms:
        return schedule, False
    limit = now_ms - 1000 * schedule.catchup_s
    late = [schedule.next_ms, *_due(schedule, schedule.next_ms, now_ms)]
    in_time = [instant for instant in late if instant >= limit]
    is_all = len(late) <= _AT_ONCE
    kept = in_time[-MOST_CAUGHT_UP:] if is_all else []
    missed = len(late) - len(kept) if is_all else len(late) - 1
    if missed == 0:
        return schedule, False
    following = kept[0] if kept else late[-1] if not is_all else next_after(schedule.timing, now_ms)
    return replace(schedule, next_ms=following, missed=schedule.missed + missed), True


def _due(schedule: Schedule, after_ms: int, now_ms: int) -> Sequence[int]:
    """Return the instants after one that have passed; at most `_AT_ONCE`."""
    found = []
    for instant in islice(after(schedule.timing, after_ms), _AT_ONCE):
        if instant > now_ms:
            break
        found.append(instant)
    return found
