"""What the sweeps of one tick share."""

from __future__ import annotations

from functools import cached_property

from scheduler.store import RunStore


class Tick:
    """One pass over the due timers."""

    def __init__(self, store: RunStore) -> None:
        self.store = store

    @cached_property
    def oldest_message_ms(self) -> int:
        """When the oldest message in the queue was published, read at most once a tick."""
        return self.store.oldest_message_ms()
