"""Where a run is archived."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sleipnir.scheduler.errors import ArchiveFailed
from sleipnir.scheduler.store.clock import to_rfc3339
from sleipnir.scheduler.store.connection import masked

if TYPE_CHECKING:
    from sleipnir.scheduler.client import Client
    from sleipnir.scheduler.runs.model import Run
    from sleipnir.scheduler.views.types.records import ArchivedDocument


def archived_document(client: Client, run: Run) -> ArchivedDocument | None:
    """Return where a run is archived; None if it is not, or if this process has no archive."""
    archive, archived = client.store.archive, client.store.archived
    if archive is None or archived is None or not run.is_final:
        return None
    found = archived.places([run.run_id]).get(run.run_id)
    if found is None:
        return None
    try:
        written_ms = archive.written_ms(run.run_id, found.place)
    except ArchiveFailed:  # the run may be shown all the same, from this machine's cache
        written_ms = None
    return {
        "object": masked(archive.url_of(run.run_id, found.place)),
        "bytes": found.place.bytes,
        "at": None if written_ms is None else to_rfc3339(written_ms),
    }
