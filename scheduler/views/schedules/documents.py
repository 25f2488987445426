"""Schedules as JSON documents."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import TYPE_CHECKING

from sleipnir.scheduler.client.rerun.agents import reference_of
from sleipnir.scheduler.runs.schedules.instants import after
from sleipnir.scheduler.runs.schedules.model import Schedule
from sleipnir.scheduler.runs.time_bounds import duration_text
from sleipnir.scheduler.store.clock import to_rfc3339
from sleipnir.scheduler.views.versions import current_digest

if TYPE_CHECKING:
    from sleipnir.scheduler.client import Client
    from sleipnir.scheduler.client.schedules.starting import Backfilled
    from sleipnir.scheduler.views.types import schedules as types

_NEXT = 5
MASKED = "***"


def schedule_document(schedule: Schedule) -> types.ScheduleDocument:
    """Return a schedule."""
    timing, given = schedule.timing, schedule.given
    variables = given.get("var", {})
    return {
        "name": schedule.name,
        "agent": schedule.agent,
        "agent_version": schedule.digest[:12],
        "packed_at": to_rfc3339(schedule.packed_ms),
        "cron": list(timing.cron),
        "timezone": timing.timezone,
        "every": None if timing.every_s is None else duration_text(timing.every_s),
        "offset": duration_text(timing.offset_s),
        "start": _instant(timing.start_ms),
        "end": _instant(timing.end_ms),
        "jitter": duration_text(timing.jitter_s),
        "overlap": str(schedule.overlap),
        "catchup": duration_text(schedule.catchup_s),
        "pause_on_failure": schedule.pause_on_failure,
        "session": schedule.session,
        "prompt": given.get("prompt", ""),
        "state": dict(given.get("set", {})),
        "vars": {n: MASKED if n in schedule.secrets else v for n, v in variables.items()},
        "labels": dict(given.get("label", {})),
        "queue": given.get("queue"),
        "webhook": given.get("webhook"),
        "paused": schedule.paused,
        "next_at": list(map(to_rfc3339, _next(schedule))),
        "last_run": schedule.last_run,
        "last_at": _instant(schedule.last_ms),
        "waiting": list(map(to_rfc3339, schedule.buffered)),
        "fired": schedule.fired,
        "skipped": schedule.skipped,
        "missed": schedule.missed,
    }


def shown_document(client: Client, schedule: Schedule) -> types.ShownScheduleDocument:
    """Return a schedule, and whether its agent has changed since."""
    now = current_digest(client, reference_of(schedule.agent, schedule.agent_path))
    changed = None if now is None else now != schedule.digest
    return {**schedule_document(schedule), "files_changed": changed}


def list_document(schedules: Sequence[Schedule]) -> types.ScheduleListDocument:
    """Return schedules, those that fire next first, those that do not at the end."""
    never = float("inf")
    ordered = sorted(schedules, key=lambda each: (each.next_ms or never, each.name))
    return {"schedules": [schedule_document(each) for each in ordered]}


def backfilled_document(filled: Backfilled) -> types.BackfilledDocument:
    """Return what a backfill did."""
    return {
        "started": list(filled.started),
        "existing": filled.existing,
        "waiting": filled.waiting,
        "skipped": filled.skipped,
    }


def when_text(document: types.ScheduleDocument) -> str:
    """Return when a schedule fires, such as `0 9 * * 1-5 Europe/Berlin` or `every 15m`."""
    if document["every"] is not None:
        offset = "" if document["offset"] == "0s" else f" + {document['offset']}"
        return f"every {document['every']}{offset}"
    lines = ", ".join(document["cron"])
    return lines if document["timezone"] == "UTC" else f"{lines} {document['timezone']}"


def _next(schedule: Schedule) -> list[int]:
    if schedule.next_ms is None:
        return []
    following = islice(after(schedule.timing, schedule.next_ms), _NEXT - 1)
    return [schedule.next_ms, *following]


def _instant(ms: int | None) -> str | None:
    return None if ms is None else to_rfc3339(ms)
