"""Schedules as the texts that are stored."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

from sleipnir.graphs.state import encode
from sleipnir.scheduler.runs.schedules.model import Overlap, Schedule, Timing

# Fields of a schedule that are stored as a part of others, or in fields of their own.
_STANDING = ("next_ms", "paused", "last_ms", "buffered", "fired", "skipped", "missed")
_APART = (*_STANDING, "name", "digest", "revision", "last_run")


def definition_text(schedule: Schedule) -> str:
    """Return what a person has defined, as JSON text."""
    values = _given(schedule, [f.name for f in fields(schedule) if f.name not in _APART])
    return encode({**values, "timing": _given(schedule.timing, [f.name for f in fields(Timing)])})


def standing_text(schedule: Schedule) -> str:
    """Return how far a schedule is, as JSON text."""
    return encode(_given(schedule, _STANDING))


def _given(record: Any, names: Sequence[str]) -> dict[str, Any]:
    """Return the fields that are not as they are by default: there may be many schedules."""
    default = {field.name: field.default for field in fields(record)}
    found = {name: getattr(record, name) for name in names}
    return {n: value for n, value in found.items() if value != default[n] and value != {}}


def schedule_of(name: str, stored: Mapping[str, str]) -> Schedule:
    """Return a schedule from the fields of its hash."""
    definition = json.loads(stored["definition"])
    standing = json.loads(stored.get("standing") or "{}")
    timing = definition.pop("timing")
    return Schedule(
        name=name,
        digest=stored["digest"],
        timing=Timing(**{**timing, "cron": tuple(timing.get("cron", ()))}),
        **{
            **definition,
            "overlap": Overlap(definition.get("overlap", Overlap.SKIP)),
            "secrets": tuple(definition.get("secrets", ())),
        },
        revision=int(stored["revision"]),
        last_run=stored.get("last"),
        **{**standing, "buffered": tuple(standing.get("buffered", ()))},
    )
