"""What was spent in a period, by whom, what it was before, and what becomes of the day's budget."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from sleipnir.scheduler.client.spending import figures_of
from sleipnir.scheduler.runs.spending import NOTHING_SPENT, Spent, sum_of
from sleipnir.scheduler.store.clock import to_rfc3339
from sleipnir.scheduler.store.figures.by_time import HOUR_MS, FiguresByTime, SpendingByTime
from sleipnir.scheduler.store.figures.dearest import dearest_runs
from sleipnir.scheduler.store.figures.sums import ENDED, Sums
from sleipnir.scheduler.views.limits import limits_document
from sleipnir.scheduler.views.runs import listed_documents
from sleipnir.scheduler.views.trends.costs_by import By, spread_of
from sleipnir.scheduler.views.trends.windows import Per, Period, Window, hours_left, window_of

if TYPE_CHECKING:
    from sleipnir.scheduler.client import Client
    from sleipnir.scheduler.views.types import trends as types
    from sleipnir.scheduler.views.types.records import ListedRunDocument
    from sleipnir.scheduler.views.typical_runs import TypicalRuns

# Of these, ended runs are counted, too.
_COUNTED: Final = frozenset({"agent", "batch"})
# The names that a chart tells apart.
MOST_SERIES: Final = 5
_MOST_ROWS: Final = 200
_MOST_LABELS: Final = 20


def costs_document(
    client: Client,
    typical: TypicalRuns,
    *,
    period: Period = "7d",
    per: Per | None = None,
    by: By = "agent",
    label: str | None = None,
) -> types.CostsDocument:
    """Return what was spent in a period, the dearest first.

    Args:
        label: by whose values, if `by` label; None: the one that most was spent with.

    Raises:
        ValueError: the period is not divided like that.
    """
    now_ms = client.queries.now_ms()
    window = window_of(now_ms, period, per)
    spread = spread_of(client, window, by, label)
    before = {name: Spent.of(sum_) for name, sum_ in spread.before.items()}
    spent = _totals(spread.slots)
    limits = limits_document(client)
    return {
        "period": period,
        "per": window.per,
        "by": by,
        "label": spread.label,
        "labels": spread.labels[:_MOST_LABELS],
        "slots": window.starts(),
        "until": window.ends(),
        "series": cost_series(window, spread.slots),
        "rows": _rows(spent, before, _ended(client, window, by))[:_MOST_ROWS],
        "total": figures_of(sum_of(spent.values())),
        "before_usd": sum_of(before.values()).known_usd,
        "today": forecast(client, limits["today"], now_ms),
        "budgets": [budget for budget in limits["budgets"] if budget["usd"] is not None],
        "dearest": _dearest(client, typical, window),
    }


def cost_series(window: Window, slots: Mapping[int, Sums]) -> list[types.SeriesDocument]:
    """Return the dollars of each hour or day: of the dearest names, then of all others."""
    totals = _totals(slots)
    names = sorted(totals, key=lambda name: (-totals[name].cost_units, name))
    dearest = [name for name in names if totals[name].cost_units][:MOST_SERIES]
    others = [name for name in names if name not in dearest and totals[name].cost_units]

    def costs(some: list[str]) -> list[float]:
        return [_cost(slots.get(slot, {}), some) for slot in window.slots]

    found: list[types.SeriesDocument] = [
        {"name": name or None, "others": False, "values": costs([name])} for name in dearest
    ]
    if others:
        found.append({"name": None, "others": True, "values": costs(others)})
    return found


def _cost(sums: Sums, names: list[str]) -> float:
    return sum_of(Spent.of(sums[name]) for name in names if name in sums).known_usd


def _totals(slots: Mapping[int, Sums]) -> dict[str, Spent]:
    found: dict[str, Spent] = {}
    for sums in slots.values():
        for name, numbers in sums.items():
            found[name] = found.get(name, NOTHING_SPENT) + Spent.of(numbers)
    return found


def _ended(client: Client, window: Window, by: By) -> dict[str, int] | None:
    if by not in _COUNTED:
        return None
    sums = window.total(FiguresByTime(client.store.client, ENDED, client.store.past_sums), (by,))
    return {name: number for name, (number,) in sums.items()}


def _rows(
    spent: Mapping[str, Spent], before: Mapping[str, Spent], runs: Mapping[str, int] | None
) -> list[types.CostRowDocument]:
    total = sum_of(spent.values()).known_usd
    rows: list[types.CostRowDocument] = []
    for name in spent.keys() | before.keys():
        each = spent.get(name, NOTHING_SPENT)
        count = None if runs is None else runs.get(name, 0)
        rows.append(
            {
                "name": name or None,
                **figures_of(each),
                "share": each.known_usd / total if total else 0.0,
                "before_usd": before.get(name, NOTHING_SPENT).known_usd,
                "runs": count,
                "run_usd": each.known_usd / count if count else None,
            }
        )
    return sorted(rows, key=lambda row: (-row["cost_usd"], -row["before_usd"], row["name"] or ""))


def forecast(client: Client, today: Any, now_ms: int) -> types.ForecastDocument:
    """Return what becomes of today's spending if it goes on as in this hour and the one before.

    Args:
        today: the day's budget, as in `limits_document`.
    """
    hour = now_ms // HOUR_MS
    sums = SpendingByTime(client.store.client, client.store.past_sums).by_hour([hour - 1, hour])
    spent = sum_of(Spent.of(each[""]) for each in sums.values() if each)
    hour_usd = spent.known_usd / (1 + now_ms % HOUR_MS / HOUR_MS)
    left_h, left_usd = hours_left(now_ms), today["left_usd"]
    out_h = left_usd / hour_usd if left_usd is not None and hour_usd else None
    return {
        "budget": today,
        "hour_usd": hour_usd,
        "day_usd": today["spent_usd"] + hour_usd * left_h,
        "out_at": None
        if out_h is None or out_h > left_h
        else to_rfc3339(now_ms + round(out_h * HOUR_MS)),
    }


def _dearest(client: Client, typical: TypicalRuns, window: Window) -> list[ListedRunDocument]:
    kept = int(client.store.settings.retention_s * 1000) // (24 * HOUR_MS) + 1
    run_ids = dearest_runs(client.store.client, window.days[-kept:])
    rows = client.queries.rows(run_ids)
    ended = [row for row in rows if row is not None and (row.ended_at or 0) >= window.since_ms]
    return listed_documents(client, ended, typical)
