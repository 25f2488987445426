"""The archive as text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from sleipnir.scheduler.views.text import formatting

if TYPE_CHECKING:
    from sleipnir.scheduler.views.types import archive as types

_HEAD = ("RUN", "ENDED", "STATUS", "AGENT")


def status_lines(status: types.ArchiveStatusDocument) -> Iterator[str]:
    """Yield the lines about how archiving stands."""
    kept_s, late_s = status["retention_s"], status["late_s"]
    late = f", {formatting.age(late_s)} late" if late_s >= 1 else ""
    facts = {
        "archived": f"{_counted(status['archived'], 'run')} in {status['bytes']:,} bytes",
        "waiting": f"{_counted(status['waiting'], 'finished run')}{late}",
        "failing": status["failing_since"] and f"since {status['failing_since']}",
        "reason": status["failing_since"] and status["reason"],
        "kept": "for ever" if kept_s is None else f"for {formatting.age(kept_s)}",
        "encrypted": "yes" if status["encrypted"] else "no",
    }
    yield from formatting.facts_lines(status["archive"], facts)


def _counted(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def object_lines(objects: Sequence[types.ArchivedObjectDocument]) -> Iterator[str]:
    """Yield the lines of a table of objects; `-`: Redis has forgotten their runs."""
    rows = [
        (each["run_id"], each["day"], each["status"] or "-", each["agent"] or "-")
        for each in objects
    ]
    yield from formatting.columns(_HEAD, rows)
