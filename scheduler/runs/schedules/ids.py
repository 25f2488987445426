"""The ids of a schedule's runs, and the partition that it shares with them."""

from __future__ import annotations

from sleipnir.lazy import lazy_imports
from sleipnir.scheduler.runs.ids import prefix_of_session
from sleipnir.scheduler.runs.schedules.model import Schedule

with lazy_imports():
    import hashlib


def place_of(schedule: Schedule) -> str | None:
    """Return the session that a schedule's runs continue, `<agent>/<name>`; None for none."""
    if schedule.session is None:
        return None
    return f"{schedule.agent}/{schedule.session}"


def prefix_of(name: str, session_place: str | None) -> str:
    """Return the first two digits of the ids of a schedule's runs, which choose its partition.

    Runs of a session are in the session's, so that they follow each other.
    """
    return _digits(name)[:2] if session_place is None else prefix_of_session(session_place)


def run_id_at(prefix: str, name: str, instant: int) -> str:
    """Return the id of the run of an instant: always the same, so that there is one only."""
    return prefix + _digits(f"{name} {instant}")[:14]


def _digits(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
