"""The archive as documents: how it stands, what is in it, what is wrong with it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from sleipnir.scheduler.client.archive import Verified, archive_of, figures
from sleipnir.scheduler.store.archive.archive import ArchivedObject
from sleipnir.scheduler.store.clock import to_rfc3339

if TYPE_CHECKING:
    from sleipnir.scheduler.client import Client
    from sleipnir.scheduler.views.types import archive as types


def status_document(client: Client) -> types.ArchiveStatusDocument:
    """Return how archiving stands.

    Raises:
        SettingInvalid: there is no archive.
    """
    archive, found = archive_of(client), figures(client)
    since_ms, settings = found.failing_since_ms, client.store.settings
    return {
        "archive": archive.url,
        "after_s": settings.archive_after_s,
        "retention_s": settings.archive_retention_s,
        "encrypted": settings.archive_key_file is not None,
        "waiting": found.waiting,
        "late_s": found.late_s,
        "archived": found.archived,
        "bytes": found.bytes,
        "failures": found.failures,
        "failing_since": None if since_ms is None else to_rfc3339(since_ms),
        "reason": found.reason or None,
    }


def verified_document(number: int, bad: Sequence[Verified]) -> types.VerifiedDocument:
    """Return what came of reading the objects of so many runs."""
    problems: list[types.BadObjectDocument] = [
        {"run_id": each.run_id, "problem": each.problem or ""} for each in bad
    ]
    return {"runs": number, "bad": problems}


def object_documents(
    client: Client, objects: Sequence[ArchivedObject]
) -> list[types.ArchivedObjectDocument]:
    """Return objects, with what Redis still knows of their runs."""
    rows = client.queries.rows([each.run_id for each in objects])
    return [
        {
            "run_id": each.run_id,
            "day": each.day,
            "number": each.number,
            "agent": None if row is None else row.agent,
            "status": None if row is None else str(row.status),
        }
        for each, row in zip(objects, rows, strict=True)
    ]
