"""What wants attention, as every page shows it: open questions, pauses, lost workers."""

from __future__ import annotations

from collections.abc import Mapping
from threading import Lock
from time import monotonic
from typing import TYPE_CHECKING, Final

from sleipnir.scheduler.store.machines import Machines
from sleipnir.scheduler.views.limits import limits_document

if TYPE_CHECKING:
    from sleipnir.scheduler.client import Client
    from sleipnir.worker.monitor.site import Site

# How old a page's figures may be; open pages are told of questions at once.
_GOOD_S: Final = 5.0
KINDS: Final = ("questions", "pauses", "lost")


class AttentionWatch:
    """Knows what wants attention, without any page waiting for it."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._latest: Mapping[str, int] = dict.fromkeys(KINDS, 0)
        self._lock = Lock()
        self._read_at = -_GOOD_S

    def latest(self) -> Mapping[str, int]:
        """Return what was read last; if that is too old, it is read again for the next page."""
        with self._lock:
            now = monotonic()
            is_old = now - self._read_at >= _GOOD_S
            if is_old:
                self._read_at = now
        if is_old:
            self._site.begin(self.read)
        return self._latest

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
