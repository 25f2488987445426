"""Removes what has been in the archive for longer than `archive_retention_s`."""

from __future__ import annotations

import logging
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from sleipnir.scheduler.store.run_store import RunStore

if TYPE_CHECKING:
    from sleipnir.scheduler.store.archive.archive import Archive

logger = logging.getLogger("sleipnir.scheduler")

_DAY_S = 86_400


def remove_old(store: RunStore, archive: Archive) -> int:
    """Remove the objects of days that are over for so long; return how many objects.

    They stay for `retention_s` at least, as long as Redis has their runs.

    Raises:
        ArchiveFailed: the archive cannot be used.
    """
    kept_s = store.settings.archive_retention_s
    if kept_s is None:
        return 0
    kept_s = max(kept_s, store.settings.retention_s)
    last = datetime.fromtimestamp(store.clock.now_ms() / 1000 - kept_s - _DAY_S, UTC)
    old = [day for day in archive.days() if day <= last.strftime("%Y/%m/%d")]
    removed = sum(map(archive.remove_day, old))
    if removed:
        logger.info("removed %d objects of %d days from the archive", removed, len(old))
    return removed
