"""What model calls have cost, by time, agent, batch, node, model or label; booked when answered."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Literal, TypeAlias, cast, get_args

from sleipnir.records import dataclass
from sleipnir.scheduler.runs.spending import NAMES, NOTHING_SPENT, Spent, dearest_first, sum_of
from sleipnir.scheduler.store.figures.by_time import (
    DAY_MS,
    HOUR_MS,
    HOURS_OF_A_DAY,
    FiguresByTime,
    SpendingByTime,
)
from sleipnir.scheduler.store.figures.ends import percentile_in
from sleipnir.scheduler.store.figures.folding import HOURS_KEPT_MS
from sleipnir.scheduler.store.figures.sums import LABELLED, Sums, added, by_value
from sleipnir.scheduler.store.run_store import RunStore

if TYPE_CHECKING:
    from sleipnir.scheduler.runs.documents import (
        RecentSpendingDocument,
        SpendDocument,
        SpendFiguresDocument,
        SpendRowDocument,
    )

By: TypeAlias = Literal["hour", "day", "agent", "batch", "node", "model", "label"]
BY: tuple[By, ...] = get_args(By)
_TIMES: tuple[By, ...] = ("day", "hour")
SHARES = {"p50": 0.5, "p95": 0.95}
# Nodes and models on a page.
_DEAREST = 10


@dataclass(frozen=True, slots=True)
class SpendFilter:
    """What to count: whole days in UTC, the last one included; None: all that is kept."""

    since: date | None = None
    until: date | None = None
    agent: str | None = None  # of root runs; their child runs are counted with them
    batch: str | None = None
    label: str | None = None  # whose values to tell apart; None: the dearest


@dataclass(frozen=True, slots=True)
class SpendRow:
    """What was spent for one combination of the names that were asked for."""

    # The day as `2026-11-27`, the hour as `2026-11-27T14`; None: runs of no batch, or calls that
    # are not told apart, or do not have the label.
    names: Mapping[By, str | None]
    spent: Spent

    def to_json(self) -> SpendRowDocument:
        # The names differ from call to call, so they are no fields for the type checker.
        return cast("SpendRowDocument", {**self.names, **figures_of(self.spent)})


@dataclass(frozen=True, slots=True)
class Spending:
    """What was spent: by time in its order, else the dearest first."""

    rows: Sequence[SpendRow]
    total: Spent

    def to_json(self) -> SpendDocument:
        return {"rows": [row.to_json() for row in self.rows], "total": figures_of(self.total)}


def spending(store: RunStore, by: Sequence[By], wanted: SpendFilter) -> Spending:
    """Return what was spent, one row for each combination of the names in `by`.

    Raises:
        ValueError: it is by labels and by something else but times.
    """
    days = days_of(store, wanted)
    if "label" in by:
        return _by_label(store, by, wanted, days)
    filters = {"agent": wanted.agent, "batch": wanted.batch}
    names = tuple(name for name in NAMES if name in by or filters.get(name) is not None)
    columns = ("hour", "day", *names)
    required = [
        (columns.index(name), filters[name]) for name in names if filters.get(name) is not None
    ]
    shown = [columns.index(name) for name in by]
    found: dict[tuple[str, ...], list[int]] = {}
    for times, sums in _by_time(SpendingByTime(store.client, store.past_sums), by, days, names):
        for given, numbers in sums.items():
            values = (*times, *given.split("\n", len(names) - 1))
            if all(values[column] == value for column, value in required):
                key = tuple([values[column] for column in shown])  # a list is made faster
                before = found.get(key)
                found[key] = numbers if before is None else added(before, numbers)
    spent = {key: Spent.of(numbers) for key, numbers in found.items()}
    return Spending(tuple(_rows(by, spent)), sum_of(spent.values()))


def _by_label(store: RunStore, by: Sequence[By], wanted: SpendFilter, days: range) -> Spending:
    if wanted.agent is not None or wanted.batch is not None or {*by} - {"label", *_TIMES}:
        raise ValueError("spending by label is counted by hour and day only, for all runs")
    labelled = FiguresByTime(store.client, LABELLED, store.past_sums)
    label = wanted.label or next(iter(dearest_first(labelled.together(days, ("label",)))), None)
    values = dict(_by_time(labelled, by, days, ("label", "value")))
    sums: dict[tuple[str, ...], Spent] = {}
    for times, totals in _by_time(SpendingByTime(store.client, store.past_sums), by, days, ()):
        for value, numbers in by_value(totals.get("", []), values.get(times, {}), label).items():
            columns = {"hour": times[0], "day": times[1], "label": value}
            key = tuple(columns[name] for name in by)
            sums[key] = sums.get(key, NOTHING_SPENT) + Spent.of(numbers)
    return Spending(tuple(_rows(by, sums)), sum_of(sums.values()))


def _by_time(
    stored: FiguresByTime, by: Sequence[By], days: range, names: Sequence[str]
) -> Iterator[tuple[tuple[str, str], Sums]]:
    """Yield hour and day, "" if sums are not by these, with the sums."""
    if "hour" in by:
        hours = range(days.start * HOURS_OF_A_DAY, days.stop * HOURS_OF_A_DAY)
        for hour, sums in stored.by_hour(hours[-HOURS_KEPT_MS // HOUR_MS :], names).items():
            day = day_text(hour // HOURS_OF_A_DAY)
            yield (f"{day}T{hour % HOURS_OF_A_DAY:02}", day), sums
    elif "day" in by:
        for number, sums in stored.by_day(days, names).items():
            yield ("", day_text(number)), sums
    else:
        yield ("", ""), stored.together(days, names)  # first, as there are few sums then


def recent_spending(store: RunStore, days: int, agent: str | None = None) -> RecentSpendingDocument:
    """Return what was spent on the last days, today included, by all agents or by one."""
    today = datetime.fromtimestamp(store.clock.now_ms() / 1000, tz=UTC).date()
    since = today - timedelta(days=days - 1)
    found = spending(store, ("day", "agent", "node", "model"), SpendFilter(since, agent=agent))
    by_day = {row["day"]: row for row in _grouped(found, ("day",))}
    every_day = [(since + timedelta(days=n)).isoformat() for n in range(days)]
    nothing = (SpendRow({"day": day}, NOTHING_SPENT).to_json() for day in every_day)
    return {
        "since": since.isoformat(),
        "days": [by_day.get(row["day"], row) for row in nothing],
        "nodes": _grouped(found, ("agent", "node"))[:_DEAREST],
        "models": _grouped(found, ("model",))[:_DEAREST],
        "total": figures_of(found.total),
    }


def _grouped(found: Spending, by: Sequence[By]) -> list[SpendRowDocument]:
    """Return the rows by fewer names."""
    sums: dict[tuple[str, ...], Spent] = {}
    for row in found.rows:
        key = tuple(row.names[name] or "" for name in by)
        sums[key] = sums.get(key, NOTHING_SPENT) + row.spent
    return [row.to_json() for row in _rows(by, sums)]


def _rows(by: Sequence[By], sums: Mapping[tuple[str, ...], Spent]) -> Iterator[SpendRow]:
    def order(key: tuple[str, ...]) -> tuple[str, int, tuple[str, ...]]:
        time = "".join(key[by.index(name)] for name in _TIMES if name in by)
        return time, -sums[key].cost_units, key

    for key in sorted(sums, key=order):
        names = {name: value or None for name, value in zip(by, key, strict=True)}
        yield SpendRow(names, sums[key])


def days_of(store: RunStore, wanted: SpendFilter) -> range:
    """Return the days since 1970 of which sums may be kept."""
    now_ms = store.clock.now_ms()
    oldest = (now_ms - round(store.settings.spend_retention_s * 1000)) // DAY_MS - 1
    first = oldest if wanted.since is None else max(oldest, _number(wanted.since))
    today = now_ms // DAY_MS
    last = today if wanted.until is None else min(today, _number(wanted.until))
    return range(max(first, 0), last + 1)


def _number(day: date) -> int:
    return day.toordinal() - date(1970, 1, 1).toordinal()


def day_text(day: int) -> str:
    """Return a day, given since 1970, as `2026-11-27`."""
    return datetime.fromtimestamp(day * DAY_MS / 1000, tz=UTC).date().isoformat()


def figures_of(spent: Spent) -> SpendFiguresDocument:
    return {
        "calls": spent.calls,
        "tokens_in": spent.prompt_tokens,
        "cached": spent.cached_tokens,
        "tokens_out": spent.completion_tokens,
        "cost_usd": spent.known_usd,
        "economy_usd": spent.economy_usd,
        "unknown_price_calls": spent.unpriced,
        "failed_calls": spent.failed,
        "waited_s": spent.waited_ms / 1000,
        "took_s": {name: _took_s(spent, share) for name, share in SHARES.items()},
    }


def _took_s(spent: Spent, share: float) -> float | None:
    """Return about how long this share of the calls took at most, in s."""
    found = percentile_in(dict(enumerate(spent.took, 1)), share)
    return None if found is None else found / 1000
