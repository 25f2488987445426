"""Carries out what a schedule does next, for schedulers when it is due, and for commands."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from sleipnir.scheduler.errors import SubmissionRefused
from sleipnir.scheduler.runs.model import Failure, NewRun
from sleipnir.scheduler.runs.schedules.firing import Firing, next_firing, paused
from sleipnir.scheduler.runs.schedules.ids import place_of, run_id_at
from sleipnir.scheduler.runs.schedules.model import Schedule
from sleipnir.scheduler.runs.schedules.template import run_at
from sleipnir.scheduler.store.clock import to_rfc3339
from sleipnir.scheduler.store.queries import RunQueries
from sleipnir.scheduler.store.queries.sessions import read_session

if TYPE_CHECKING:
    from sleipnir.scheduler.store.run_store import RunStore
    from sleipnir.scheduler.store.schedules.schedules import StoredSchedule


def step(store: RunStore, name: str) -> bool:
    """Do the next thing that a schedule is due to do; return False if nothing is left.

    Raises:
        ScheduleChanged, NotOver: it, or what it waits for, has changed meanwhile.
    """
    stored = store.schedules.read(name)
    if stored is None:
        return False
    schedule = stored.schedule
    if stored.failed is not None and schedule.pause_on_failure:
        reason = f"run {stored.failed} did not succeed"
        store.schedules.step(stored, paused(schedule, reason), None)
        return False
    busy = busy_run(store, schedule)
    now_ms = store.clock.now_ms()
    firing = next_firing(schedule, now_ms, is_open=busy is not None)
    if firing is None:
        store.schedules.step(stored, schedule, None)  # its timer is that of the next instant
        return False
    carry_out(store, stored, firing, busy)
    # Most often not: the timer of the next instant is set already.
    return next_firing(firing.schedule, now_ms, is_open=True) is not None


def busy_run(store: RunStore, schedule: Schedule) -> str | None:
    """Return the open run that a new one would overlap; None if there is none."""
    place = place_of(schedule)
    last = schedule.last_run
    if place is not None:
        last = RunQueries(store.client, store.clock).last_run_of_session(place)
    return last if last and store.schedules.is_open([last])[0] else None


def carry_out(store: RunStore, stored: StoredSchedule, firing: Firing, busy: str | None) -> bool:
    """Carry out one change of a schedule; return whether a run was made. Raises as `step`."""
    instant, then = firing.instant, firing.schedule
    if instant is None:
        return store.schedules.step(stored, then, None)
    if firing.cancels and busy is not None:
        reason = f"schedule '{then.name}' starts its next run"
        store.runs.close(busy, "cancelled", Failure("cancelled", reason, None))
    try:
        run = _run_at(store, stored, instant)
    except SubmissionRefused as error:
        return store.schedules.step(stored, paused(stored.schedule, str(error)), None)
    then = replace(then, last_ms=instant, fired=then.fired + 1)
    return store.schedules.step(stored, then, run)


def _run_at(store: RunStore, stored: StoredSchedule, instant: int) -> NewRun:
    schedule, session = stored.schedule, None
    if schedule.session is not None:
        queries = RunQueries(store.client, store.clock)
        session = read_session(queries, schedule.agent, schedule.session)
    run_id = run_id_at(stored.prefix, schedule.name, instant)
    return run_at(stored.run, schedule, instant, to_rfc3339(instant), run_id, session)
