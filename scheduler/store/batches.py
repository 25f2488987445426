"""What is stored about a batch besides its runs."""

from __future__ import annotations

from sleipnir.scheduler.store.keys import batch_key
from sleipnir.scheduler.store.transitions import Transitions


class Batches:
    """Writes to a batch's record; its counts are written together with its runs."""

    def __init__(self, store: Transitions) -> None:
        self._store = store

    def announce(self, batch: str, agent: str, lines: int) -> None:
        """Record which agent a batch runs and how many lines it has; safe to repeat."""
        retention_ms = int(self._store.settings.retention_s * 1000)
        with self._store.client.pipeline() as pipe:
            pipe.hset(batch_key(batch), mapping={"agent": agent, "lines": lines})
            # It has to outlive the batch's last runs; twice the retention time does, unless the
            # batch itself takes longer than that.
            pipe.pexpire(batch_key(batch), 2 * retention_ms)
            pipe.execute()
