"""How many runs were created in each hour of the last day: past hours are counted once."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sleipnir.scheduler.client import Client

_HOUR_MS = 3_600_000
_HOURS = 24


class HourlyRuns:
    """By hour. Threads may count the same at once, which does no harm."""

    def __init__(self, client: Client) -> None:
        self._queries = client.queries
        self._known: dict[int, int] = {}  # by the hour's beginning, ms

    def last_day(self) -> list[int]:
        """How many of each hour of the last day, the one that is under way last."""
        now_ms = self._queries.now_ms()
        this = now_ms - now_ms % _HOUR_MS
        begins = [this - _HOUR_MS * back for back in reversed(range(_HOURS))]
        past = {
            begin: known
            if (known := self._known.get(begin)) is not None
            else self._queries.count_created(begin, begin + _HOUR_MS)
            for begin in begins[:-1]
        }
        self._known = past
        return [*past.values(), self._queries.count_created(this, this + _HOUR_MS)]
