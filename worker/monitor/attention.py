"""What wants attention, as every page shows it: open questions, pauses, lost workers."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from math import inf
from threading import Lock
from time import monotonic
from typing import TYPE_CHECKING, Final

from sleipnir.scheduler.errors import SleipnirError
from sleipnir.scheduler.store.errors import RedisError
from sleipnir.scheduler.store.machines import Machines
from sleipnir.scheduler.views.limits import limits_document

if TYPE_CHECKING:
    from sleipnir.scheduler.client import Client
    from sleipnir.worker.monitor.site import Site

# How old a page's figures may be; open pages are told of questions at once.
_GOOD_S: Final = 5.0
# From this age on they are not shown at all: a page has new ones read first.
_GONE_S: Final = 60.0
KINDS: Final = ("questions", "pauses", "lost")


class AttentionWatch:
    """Knows what wants attention; only the first page for a while waits for it."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._latest: Mapping[str, int] = dict.fromkeys(KINDS, 0)
        self._lock = Lock()
        self._read_at = -inf

    def latest(self) -> Mapping[str, int]:
        """Return what was read last; if that is too old, it is read again for the next page."""
        if self._is_older(_GOOD_S):
            self._site.begin(self.read)
        return self._latest

    async def look(self) -> None:
        """Read it if nobody has looked for long; a page without Redis says so by itself."""
        if self._is_older(_GONE_S):
            with suppress(RedisError, SleipnirError):
                await self._site.call(self.read)

    def _is_older(self, age_s: float) -> bool:
        """Return whether it was read longer ago; who is told so reads it."""
        with self._lock:
            now = monotonic()
            is_older = now - self._read_at >= age_s
            if is_older:
                self._read_at = now
        return is_older

    def read(self) -> None:
        """Read it now."""
        self._latest = attention_of(self._site.client)


def attention_of(client: Client) -> Mapping[str, int]:
    """Return how much of each kind wants attention now."""
    return {
        "questions": client.queries.count_questions(),
        "pauses": len(limits_document(client)["pauses"]),
        "lost": len(Machines(client.store.client).lost()),
    }
