"""How runs ended in the last hours or days, by status."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from sleipnir.scheduler.runs.model import Status
from sleipnir.scheduler.store.figures.by_time import FiguresByTime
from sleipnir.scheduler.store.figures.sums import ENDED, Sums
from sleipnir.scheduler.views.trends.windows import Window

if TYPE_CHECKING:
    from sleipnir.scheduler.client import Client
    from sleipnir.scheduler.views.types import trends as types

# In the order of a chart: what is usual at the bottom.
STATUSES: Final = (Status.SUCCEEDED, Status.CANCELLED, Status.TIMED_OUT, Status.FAILED)


def ended_document(client: Client, window: Window) -> types.EndedTrendDocument:
    """Return how many root runs ended in each hour or day, by status, and in as many before."""
    figures = FiguresByTime(client.store.client, ENDED, client.store.past_sums)
    slots = window.sums(figures, ("status",))
    before = window.before.sums(figures, ("status",))
    return {
        "per": window.per,
        "slots": window.starts(),
        "until": window.ends(),
        "series": [
            {
                "name": str(status),
                "others": False,
                "values": [_count(slots.get(slot, {}), status) for slot in window.slots],
            }
            for status in STATUSES
        ],
        "runs": _by_status(slots),
        "before": _by_status(before),
    }


def _count(sums: Sums, status: Status) -> int:
    return sums.get(str(status), [0])[0]


def _by_status(slots: Mapping[int, Sums]) -> dict[str, int]:
    found: Counter[str] = Counter({str(status): 0 for status in STATUSES})
    for sums in slots.values():
        found.update({status: number for status, (number,) in sums.items()})
    return dict(found)
