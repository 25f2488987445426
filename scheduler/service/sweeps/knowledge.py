"""Retention of knowledge base indexes that stored bundles need, however long their runs wait."""

from __future__ import annotations

import logging
from datetime import timedelta
from threading import Thread

from sleipnir.lazy import lazy_imports
from sleipnir.scheduler.errors import ArtifactStoreFailed
from sleipnir.scheduler.store.errors import RedisError
from sleipnir.scheduler.store.run_store import RunStore

# Most engines have no knowledge base.
with lazy_imports():
    from sleipnir.scheduler.store.knowledge import indexes

logger = logging.getLogger("sleipnir.scheduler")

_LONGEST_INTERVAL_S = 3600.0
_RENEWALS = 4  # renewals per retention period


class KnowledgeSweep:
    """Extends the retention of indexes of stored bundles, whose runs may still search them."""

    def __init__(self, store: RunStore) -> None:
        self._store = store
        interval_s = min(_LONGEST_INTERVAL_S, store.settings.retention_s / _RENEWALS)
        self.interval = timedelta(seconds=interval_s)
        self._thread = Thread()

    def start(self) -> None:
        """Sweep in the background, as a remote store may be slow, unless it is still doing so."""
        if not self._thread.is_alive():
            self._thread = Thread(target=self.run_once, name="indexes", daemon=True)
            self._thread.start()

    def run_once(self) -> None:
        """Extend the retention of all of them."""
        try:
            indexes.Indexes(self._store.client, self._store.settings).keep_named()
        except (RedisError, ArtifactStoreFailed) as error:
            logger.warning("cannot renew the indexes of knowledge bases: %s", error)
