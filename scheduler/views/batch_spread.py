"""How the runs of a batch are spread over time, duration and cost: of many, from a part of them."""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Iterator, Sequence
from math import ceil, floor, log10
from time import monotonic
from typing import TYPE_CHECKING, Final

from sleipnir.scheduler.runs.model import RunRow, Status
from sleipnir.scheduler.store.clock import to_rfc3339
from sleipnir.scheduler.views.agents import percentile, typical_document
from sleipnir.scheduler.views.documents import elapsed_s

if TYPE_CHECKING:
    from sleipnir.scheduler.client import Client
    from sleipnir.scheduler.views.types import batches as types

_ANY_TIME: Final = 0  # for what depends on the time as long as a run is open only
_MOST_READ: Final = 1_000
_MOST_PARTS: Final = 48  # of time
_MOST_BINS: Final = 16
_WHOLE: Final = 0.98  # of the runs are in bins of equal width, the others in one without a bound
_STEPS_S: Final = tuple(
    unit * count
    for unit, counts in (
        (1, (1, 2, 5, 10, 15, 30)),
        (60, (1, 2, 5, 10, 15, 30)),
        (3_600, (1, 2, 6, 12)),
        (86_400, (1, 2, 5, 10, 20, 50, 100)),
    )
    for count in counts
)
_DIGITS: Final = 9  # further ones are of no decimal number
# A batch under way is read again after this time.
_KEPT_S: Final = 10.0
_MOST_KEPT: Final = 100


class BatchSpreads:
    """The spreads of batches, as charts need them: not read anew for every look at a page."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._kept: OrderedDict[str, tuple[float, int, types.BatchSpreadDocument]] = OrderedDict()

    def of(self, batch: types.BatchDocument) -> types.BatchSpreadDocument:
        """Return the spread of a batch; it may be some seconds old. Concurrent reads do no harm."""
        name, ended = batch["batch"], batch["runs"] - batch["open"] - batch["waiting"]
        read_at, ended_then, known = self._kept.get(name, (0.0, -1, None))
        if known is not None and (ended == ended_then or monotonic() - read_at < _KEPT_S):
            return known
        found = spread_document(self._client, batch)
        self._kept[name] = (monotonic(), ended, found)
        while len(self._kept) > _MOST_KEPT:
            self._kept.popitem(last=False)
        return found


def spread_document(client: Client, batch: types.BatchDocument) -> types.BatchSpreadDocument:
    """Return how a batch's ended runs are spread, from all of them or about 1,000."""
    run_ids = client.queries.spread_ids(batch["batch"], _MOST_READ)
    ended = [row for row in client.queries.rows(run_ids) if row is not None and row.is_final]
    times = max(1.0, batch["runs"] / max(1, len(run_ids)))
    step_s, ends = _ends(ended, times)
    costs = [row.usage.cost_usd for row in ended if row.usage.cost_usd]
    return {
        "read": len(run_ids),
        "step_s": step_s,
        "ends": ends,
        "elapsed_s": _bins([elapsed_s(row, _ANY_TIME) for row in ended], times),
        "cost_usd": _bins(costs, times),
        "typical": typical_document(ended, _ANY_TIME),
    }


def _ends(ended: Sequence[RunRow], times: float) -> tuple[float, list[types.BatchEndsDocument]]:
    """Return the ends in equal parts of the time since the first run began, and their length."""
    if not ended:
        return 1, []
    since = min(row.started_at or row.created_at for row in ended)
    until = max(row.ended_at or row.created_at for row in ended)
    step_s = next(
        (each for each in _STEPS_S if until - since <= _MOST_PARTS * each * 1_000), _STEPS_S[-1]
    )
    step_ms = step_s * 1_000
    begin = since - since % step_ms
    counts: Counter[tuple[int, bool]] = Counter(
        (((row.ended_at or row.created_at) - begin) // step_ms, row.status == Status.SUCCEEDED)
        for row in ended
    )
    return step_s, [
        {
            "at": to_rfc3339(begin + part * step_ms),
            "succeeded": round(times * counts[part, True]),
            "failed": round(times * counts[part, False]),
        }
        for part in range((until - begin) // step_ms + 1)
    ]


def _bins(values: Sequence[float], times: float) -> list[types.BatchBinDocument]:
    """Return how many values there are in each of a few bins of equal, round width."""
    most = percentile(values, _WHOLE)
    if not most:
        return []
    width = _round_width(most / _MOST_BINS)
    last = ceil(most / width)
    counts = Counter(min(last, floor(value / width)) for value in values)
    return list(_named(counts, width, last, times))


def _named(
    counts: Counter[int], width: float, last: int, times: float
) -> Iterator[types.BatchBinDocument]:
    for place in range(min(counts), last + 1):
        is_last = place == last
        if not is_last or counts[place]:
            most = None if is_last else round((place + 1) * width, _DIGITS)
            least = round(place * width, _DIGITS)
            yield {"least": least, "most": most, "runs": round(times * counts[place])}


def _round_width(least: float) -> float:
    """Return the least of 1, 2, 5, 10, … and their tenths that is not below a width."""
    power = 10.0 ** floor(log10(least))
    return next(power * each for each in (1, 2, 5, 10) if power * each >= least)
