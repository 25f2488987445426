"""How root runs ended over time: how many, how long they took and what they cost, about."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Literal, TypeAlias, cast, get_args

from sleipnir.records import dataclass
from sleipnir.scheduler.client.spending import SHARES, SpendFilter, day_text, days_of
from sleipnir.scheduler.runs.model import Status
from sleipnir.scheduler.store.figures.by_time import HOUR_MS, HOURS_OF_A_DAY, FiguresByTime
from sleipnir.scheduler.store.figures.ends import UNPRICED, percentile_in
from sleipnir.scheduler.store.figures.folding import HOURS_KEPT_MS
from sleipnir.scheduler.store.figures.sums import ENDED, Sums
from sleipnir.scheduler.store.run_store import RunStore

if TYPE_CHECKING:
    from sleipnir.scheduler.runs.documents import EndedDocument, EndedFiguresDocument

By: TypeAlias = Literal["hour", "day", "agent", "batch"]
BY: tuple[By, ...] = get_args(By)
_NANO = 1e9


@dataclass
class RunCounts:
    """A number of runs that have ended."""

    runs: Counter[str] = field(default_factory=Counter)  # by status
    took: Counter[int] = field(default_factory=Counter)  # by buckets, see figures/ends.py
    costs: Counter[int] = field(default_factory=Counter)  # the same, of known costs

    def __add__(self, other: RunCounts) -> RunCounts:
        return RunCounts(self.runs + other.runs, self.took + other.took, self.costs + other.costs)

    @property
    def total(self) -> int:
        """Their number."""
        return self.runs.total()

    @property
    def failed(self) -> int:
        """How many failed or timed out."""
        return self.runs[Status.FAILED] + self.runs[Status.TIMED_OUT]

    def took_s(self, share: float) -> float | None:
        """About how long this share of them took at most, in s."""
        found = percentile_in(self.took, share)
        return None if found is None else found / 1000

    def cost_usd(self, share: float) -> float | None:
        """About what this share of those of known cost did cost at most."""
        found = percentile_in(self.costs, share)
        return None if found is None else found / _NANO

    def to_json(self) -> EndedFiguresDocument:
        return {
            "runs": self.total,
            "succeeded": self.runs[Status.SUCCEEDED],
            "failed": self.runs[Status.FAILED],
            "cancelled": self.runs[Status.CANCELLED],
            "timed_out": self.runs[Status.TIMED_OUT],
            "took_s": {name: self.took_s(share) for name, share in SHARES.items()},
            "cost_usd": {name: self.cost_usd(share) for name, share in SHARES.items()},
        }


@dataclass(frozen=True, slots=True)
class EndedRuns:
    """RunCounts runs by the names that were asked for, in order of these."""

    by: tuple[By, ...]
    rows: Mapping[tuple[str, ...], RunCounts]
    total: RunCounts

    def to_json(self) -> EndedDocument:
        rows = [
            {**dict(zip(self.by, (name or None for name in names), strict=True)), **ended.to_json()}
            for names, ended in self.rows.items()
        ]
        # The names differ from call to call, so they are no fields for the type checker.
        return cast("EndedDocument", {"rows": rows, "total": self.total.to_json()})


def endings(store: RunStore, by: Sequence[By], wanted: SpendFilter) -> EndedRuns:
    """Return how runs ended, for each combination of the names in `by`."""
    figures, days = FiguresByTime(store.client, ENDED, store.past_sums), days_of(store, wanted)
    if "hour" in by:
        hours = range(days.start * HOURS_OF_A_DAY, days.stop * HOURS_OF_A_DAY)
        return endings_of_hours(figures, hours[-HOURS_KEPT_MS // HOUR_MS :], by, wanted)
    names = _names(by, wanted)
    found = _Found(tuple(by), wanted)
    for kind in ("took", "cost"):
        for day, sums in figures.by_day(days, (*names, "status", kind)).items():
            found.add({"day": day_text(day)}, names, sums, kind)
    return found.given()


def endings_of_hours(
    figures: FiguresByTime, hours: range, by: Sequence[By], wanted: SpendFilter
) -> EndedRuns:
    """Return how the runs of some hours ended, likewise."""
    names = _names(by, wanted)
    found = _Found(tuple(by), wanted)
    for kind in ("took", "cost"):
        for hour, sums in figures.by_hour(hours, (*names, "status", kind)).items():
            day = day_text(hour // HOURS_OF_A_DAY)
            times = {"day": day, "hour": f"{day}T{hour % HOURS_OF_A_DAY:02}"}
            found.add(times, names, sums, kind)
    return found.given()


def _names(by: Sequence[By], wanted: SpendFilter) -> tuple[Literal["agent", "batch"], ...]:
    names: tuple[Literal["agent", "batch"], ...] = ("agent", "batch")
    return tuple(name for name in names if name in by or getattr(wanted, name) is not None)


class _Found:
    """Sums of ended runs, as far as they are wanted."""

    def __init__(self, by: tuple[By, ...], wanted: SpendFilter) -> None:
        self._by = by
        self._wanted = wanted
        self._rows: dict[tuple[str, ...], RunCounts] = {}
        self._total = RunCounts()

    def add(self, times: Mapping[str, str], names: Sequence[str], sums: Sums, kind: str) -> None:
        """Add sums by these names, by status and by `kind`: how long runs took, or their cost."""
        for given, (number,) in sums.items():
            *values, status, bucket = given.split("\n")
            named = {**times, **dict(zip(names, values, strict=True))}
            if not self._is_wanted(named):
                continue
            key = tuple([named[name] for name in self._by])
            for ended in (self._rows.setdefault(key, RunCounts()), self._total):
                _count(ended, status, bucket, number, kind)

    def _is_wanted(self, named: Mapping[str, str]) -> bool:
        filters = (("agent", self._wanted.agent), ("batch", self._wanted.batch))
        return all(named[name] == value for name, value in filters if value is not None)

    def given(self) -> EndedRuns:
        return EndedRuns(self._by, dict(sorted(self._rows.items())), self._total)


def _count(ended: RunCounts, status: str, bucket: str, number: int, kind: str) -> None:
    if kind == "took":
        ended.runs[status] += number
        ended.took[int(bucket)] += number
    elif bucket != UNPRICED:
        ended.costs[int(bucket)] += number
