"""Schedules as text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from sleipnir.graphs.state import encode
from sleipnir.scheduler.views.schedules.documents import when_text
from sleipnir.scheduler.views.text import formatting

if TYPE_CHECKING:
    from sleipnir.scheduler.views.types import schedules as types

_HEAD = ("SCHEDULE", "AGENT", "WHEN", "NEXT", "LAST RUN", "FIRED", "SKIPPED", "MISSED")


def lines_of(schedules: Sequence[types.ScheduleDocument]) -> Iterator[str]:
    """Yield the lines of a table."""
    rows = [
        (
            each["name"],
            formatting.first_line(each["agent"]),
            when_text(each),
            _next(each),
            each["last_run"] or "-",
            *(f"{each[count]:,}" for count in ("fired", "skipped", "missed")),
        )
        for each in schedules
    ]
    yield from formatting.columns(_HEAD, rows)


def page_of(shown: types.ShownScheduleDocument) -> Iterator[str]:
    """Yield the lines about one schedule."""
    changed = {
        True: f"; the files have changed since: `sleipnir schedule edit {shown['name']} "
        f"--agent {shown['agent']}` takes them",
        False: "",
        None: "; the agent is not on this machine",
    }[shown["files_changed"]]
    facts = {
        "agent": f"{shown['agent']} as of {shown['packed_at']} ({shown['agent_version']}){changed}",
        "when": when_text(shown),
        "from": shown["start"],
        "until": shown["end"],
        "jitter": None if shown["jitter"] == "0s" else shown["jitter"],
        "overlap": shown["overlap"],
        "catchup": shown["catchup"],
        "failure": "pauses it" if shown["pause_on_failure"] else None,
        "session": shown["session"],
        "prompt": formatting.first_line(shown["prompt"]) or None,
        "state": _pairs({key: encode(value) for key, value in shown["state"].items()}),
        "variables": _pairs(shown["vars"]),
        "labels": _pairs(shown["labels"]),
        "queue": shown["queue"],
        "webhook": shown["webhook"],
        "next": ", ".join(map(_short, shown["next_at"][:3])) or None,
        "paused": shown["paused"],
        "last run": shown["last_run"]
        and f"{shown['last_run']} of {_short(shown['last_at'] or '')}",
        "waiting": ", ".join(map(_short, shown["waiting"])) or None,
        "instants": f"{shown['fired']:,} fired, {shown['skipped']:,} skipped, "
        f"{shown['missed']:,} missed",
    }
    yield from formatting.facts_lines(f"schedule {shown['name']}", facts)


def _next(schedule: types.ScheduleDocument) -> str:
    if schedule["paused"] is not None:
        return "paused"
    return _short(schedule["next_at"][0]) if schedule["next_at"] else "never"


def _short(instant: str) -> str:
    """Return an instant without its milliseconds, which most do not have."""
    return instant.replace(".000Z", "Z")


def _pairs(values: dict[str, str]) -> str | None:
    return ", ".join(f"{name}={formatting.first_line(text)}" for name, text in values.items())
