"""Starts runs of schedules when a person says so: now, or for instants that have passed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import takewhile
from typing import TYPE_CHECKING, Final

from sleipnir.records import dataclass
from sleipnir.scheduler.errors import ActionRefused, NotOver, ScheduleChanged, ScheduleNotFound
from sleipnir.scheduler.runs.schedules.firing import at_instant
from sleipnir.scheduler.runs.schedules.ids import run_id_at
from sleipnir.scheduler.runs.schedules.instants import after
from sleipnir.scheduler.runs.schedules.model import Overlap, Schedule
from sleipnir.scheduler.store.schedules.stepping import busy_run, carry_out

if TYPE_CHECKING:
    from sleipnir.scheduler.client.client import Client
    from sleipnir.scheduler.store.schedules.schedules import StoredSchedule

MOST_BACKFILLED: Final = 1_000
# Another firing or change may come between a read and a write, again and again only under load.
ATTEMPTS: Final = 20


@dataclass(frozen=True, slots=True)
class Backfilled:
    """What a backfill did."""

    started: tuple[str, ...]  # ids of new runs
    existing: int  # instants that had a run already
    waiting: int  # instants that start when the run before them ends
    skipped: int


def read(client: Client, name: str) -> StoredSchedule:
    """Return a schedule; raises ScheduleNotFound."""
    stored = client.store.schedules.read(name)
    if stored is None:
        raise ScheduleNotFound(name)
    return stored


def too_busy(name: str) -> ActionRefused:
    """Return the refusal of a change that others always came before."""
    return ActionRefused(f"schedule '{name}' is changed by others all the time: try again")


def trigger(client: Client, name: str) -> str:
    """Start a run now; see `ScheduleClient.trigger`."""
    for _ in range(ATTEMPTS):
        stored = read(client, name)
        schedule, busy = stored.schedule, busy_run(client.store, stored.schedule)
        if busy is not None and schedule.overlap not in (Overlap.ALLOW_ALL, Overlap.CANCEL_OTHER):
            raise ActionRefused(
                f"run {busy} of schedule '{name}' is open, and its overlap is "
                f"{schedule.overlap}: wait for its end, or cancel it"
            )
        instant = client.store.clock.now_ms()
        firing = at_instant(schedule, instant, is_open=busy is not None)
        try:
            carry_out(client.store, stored, firing, busy)
        except (ScheduleChanged, NotOver):
            continue
        run_id = run_id_at(stored.prefix, name, instant)
        client.keep([run_id])
        return run_id
    raise too_busy(name)


def backfill(
    client: Client, name: str, from_ms: int, to_ms: int, overlap: Overlap | None
) -> Backfilled:
    """Start the runs of instants that have passed; see `ScheduleClient.backfill`."""
    schedule = read(client, name).schedule
    in_turn = Overlap.ALLOW_ALL if schedule.session is None else Overlap.BUFFER_ALL
    chosen = overlap or in_turn
    if schedule.session is not None and chosen == Overlap.ALLOW_ALL:
        raise ActionRefused("the runs of a session follow each other: use --overlap buffer-all")
    started, existing, waiting, skipped = list[str](), 0, 0, 0
    for instant in _instants(client, schedule, from_ms, to_ms):
        filled = _fill(client, name, instant, chosen)
        if filled is None:
            existing += 1
            continue
        started += [filled.run_id] if filled.run_id else []
        waiting += max(0, len(filled.after.buffered) - len(filled.before.buffered))
        skipped += filled.after.skipped - filled.before.skipped
    client.keep(started)
    return Backfilled(tuple(started), existing, waiting, skipped)


def _instants(client: Client, schedule: Schedule, from_ms: int, to_ms: int) -> Sequence[int]:
    if to_ms > client.store.clock.now_ms():
        raise ActionRefused("only instants that have passed can be filled: move --to back")
    found = []
    for instant in takewhile(lambda at: at <= to_ms, after(schedule.timing, from_ms - 1)):
        found.append(instant)
        if len(found) > MOST_BACKFILLED:
            raise ActionRefused(
                f"there are more than {MOST_BACKFILLED:,} instants in that time: fill it in "
                "several parts"
            )
    return found


@dataclass(frozen=True, slots=True)
class _Filled:
    """What became of an instant, and the schedule before and after it."""

    run_id: str | None
    before: Schedule
    after: Schedule


def _fill(client: Client, name: str, instant: int, overlap: Overlap) -> _Filled | None:
    """Carry out an instant; return None if it has a run, or waits for its turn, already."""
    for _ in range(ATTEMPTS):
        stored = read(client, name)
        schedule = stored.schedule
        run_id = run_id_at(stored.prefix, name, instant)
        (known,) = client.queries.rows([run_id])
        if known is not None or instant in schedule.buffered:
            return None
        busy = busy_run(client.store, schedule)
        firing = at_instant(replace(schedule, overlap=overlap), instant, is_open=busy is not None)
        try:
            is_made = carry_out(client.store, stored, firing, busy)
        except (ScheduleChanged, NotOver):
            continue
        return _Filled(run_id if is_made else None, schedule, firing.schedule)
    raise too_busy(name)
