"""Archives runs that have ended; scheduler/store/archive has their objects."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sleipnir.lazy import lazy_imports
from sleipnir.scheduler.store.run_store import RunStore

# Most engines have no archive.
with lazy_imports():
    from sleipnir.scheduler.service.archiving import archiver

if TYPE_CHECKING:
    from sleipnir.scheduler.service.archiving.archiver import Archiver


def archiver_of(store: RunStore) -> Archiver | None:
    """Return what archives runs as the settings say; None if they stay in Redis."""
    return None if store.archive is None else archiver.Archiver(store, store.archive)
