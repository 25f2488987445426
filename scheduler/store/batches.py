"""What is known of a batch besides its runs."""

from __future__ import annotations

from sleipnir.scheduler.store.keys import batch_key
from sleipnir.scheduler.store.transitions import Transitions


class Batches:
    """Writes of batches; what is counted of them is written with their runs."""

    def __init__(self, store: Transitions) -> None:
        self._store = store

    def announce(self, batch: str, agent: str, lines: int) -> None:
        """Tell what a batch runs, and how many runs it will have; each start of it may do so."""
        retention_ms = int(self._store.settings.retention_s * 1000)
        with self._store.client.pipeline() as pipe:
            pipe.hset(batch_key(batch), mapping={"agent": agent, "lines": lines})
            # As long as its last runs at least, unless it takes longer than that itself.
            pipe.pexpire(batch_key(batch), 2 * retention_ms)
            pipe.execute()
