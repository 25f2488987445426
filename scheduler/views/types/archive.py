"""Documents about the archive."""

from __future__ import annotations

from typing import TypedDict


class ArchiveStatusDocument(TypedDict):
    """How archiving stands."""

    archive: str
    after_s: float
    retention_s: float | None
    encrypted: bool
    waiting: int
    late_s: float
    archived: int
    bytes: int
    failures: int
    failing_since: str | None
    reason: str | None


class BadObjectDocument(TypedDict):
    """An archived run that cannot be read."""

    run_id: str
    problem: str


class VerifiedDocument(TypedDict):
    """What came of reading all objects."""

    runs: int
    bad: list[BadObjectDocument]


class ArchivedObjectDocument(TypedDict):
    """An object, and what Redis still knows of its run."""

    run_id: str
    day: str
    number: int
    agent: str | None
    status: str | None
