"""The state of limits, pauses and budgets for `sleipnir limits`, `ps` and `show`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from sleipnir.records import dataclass
from sleipnir.scheduler.limits.messages import resume_command
from sleipnir.scheduler.limits.rules import (
    BUDGET_SETTINGS,
    LIMIT_SETTINGS,
    SCOPES,
    Budget,
    Rules,
    Scope,
    batch_budget,
)
from sleipnir.scheduler.store.clock import to_rfc3339
from sleipnir.scheduler.store.limit_queries import LimitQueries

# The most recently used budgets of runs and batches.
_MOST_BUDGETS = 50


@dataclass(frozen=True, slots=True)
class LimitLine:
    """One setting of a limit."""

    name: str
    setting: str
    value: int
    origin: str  # configuration | command
    in_use: int  # in the last minute; for `concurrency`: now
    waiting: int  # calls that wait for any setting of this name
    share: float  # share of the limit left after refusals of the provider


@dataclass(frozen=True, slots=True)
class PauseLine:
    """A paused name, which no call may use for now."""

    name: str
    kind: str  # throttled | unavailable | quota_exceeded | command
    reason: str
    since: str | None
    until: str | None  # None: until a person resumes it
    waiting: int


@dataclass(frozen=True, slots=True)
class BudgetLine:
    """The use of one run's, batch's or day's budget; `run` and `batch` are the general limits."""

    name: str
    origin: str  # configuration | command, or both; own budget of a run: retry --budget
    usd: float | None
    tokens: int | None
    on_excess: str
    spent_usd: float
    spent_tokens: int
    reserved_usd: float
    reserved_tokens: int
    left_usd: float | None
    left_tokens: int | None
    waiting: int


@dataclass(frozen=True, slots=True)
class Report:
    """Everything that may delay a model call."""

    limits: tuple[LimitLine, ...]
    pauses: tuple[PauseLine, ...]
    budgets: tuple[BudgetLine, ...]
    today: BudgetLine  # the day, with or without a budget

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def report(queries: LimitQueries, rules: Rules) -> Report:
    """Return the current state."""
    reading = _LimitReader(queries, rules)
    return Report(
        tuple(reading.limits()),
        tuple(reading.pauses()),
        tuple(reading.budgets()),
        reading.today(),
    )


def held_up(queries: LimitQueries, run_ids: Sequence[str]) -> dict[str, str]:
    """Return those of the runs that wait for a person to lift a limit, each with the reason."""
    return {
        run_id: f"{name} is paused: {resume_command(name)}"
        for run_id, name in queries.paused_for_people(run_ids).items()
    }


class _LimitReader:
    """Reads the rate limiter's state at one instant of its clock."""

    def __init__(self, queries: LimitQueries, rules: Rules) -> None:
        self._queries = queries
        self._rules = rules
        self._now_ms, self._ahead_ms = queries.now_ms(), queries.ahead_ms()

    def limits(self) -> Iterator[LimitLine]:
        for name in self._rules.limit_names():
            limit = self._rules.limit(name)
            state = self._queries.state(name)
            waiting, share = self._waiting(name), self._share(state)
            for setting in LIMIT_SETTINGS:
                value = getattr(limit, setting)
                if value is not None:
                    origin = self._rules.origin(name, setting)
                    in_use = self._queries.in_use(name, setting, state, self._now_ms)
                    yield LimitLine(name, setting, value, origin, in_use, waiting, share)

    def _share(self, state: dict[str, str]) -> float:
        if "share" not in state:
            return 1.0
        recovered = (self._now_ms - float(state["cut_at"])) / 100_000
        return min(1.0, float(state["share"]) + recovered)

    def _waiting(self, name: str) -> int:
        return self._queries.waiting(name, self._now_ms)

    def pauses(self) -> Iterator[PauseLine]:
        for name, reason in sorted(self._rules.paused.items()):
            yield PauseLine(name, "command", reason, None, None, self._waiting(name))
        for name, pause in sorted(self._queries.pauses().items()):
            if pause["until_ms"] > self._now_ms or self._waiting(name):
                since, until = (
                    to_rfc3339(int(pause[f"{end}_ms"]) - self._ahead_ms)
                    for end in ("since", "until")
                )
                waiting = self._waiting(name)
                yield PauseLine(name, pause["kind"], pause["reason"], since, until, waiting)

    def budgets(self) -> Iterator[BudgetLine]:
        bounded = {budget.scope: budget for budget in self._rules.budgets}
        # Shown even if unused.
        shown: dict[str, None] = dict.fromkeys(bounded)
        shown |= dict.fromkeys(self._queries.budget_names()[:_MOST_BUDGETS])
        for name in shown:
            own_usd = self._queries.own_budget_usd(name) if ":" in name else None
            if own_usd is not None and name.startswith("batch:"):
                yield self._budget(name, batch_budget(own_usd), "batch --budget")
            elif own_usd is not None:
                yield self._budget(name, self._rules.own_budget(own_usd), "retry --budget")
            elif (budget := bounded.get(scope_of(name))) is not None:
                yield self._budget(name, budget, self._origin(budget))

    def today(self) -> BudgetLine:
        day = next((each for each in self._rules.budgets if each.scope == "day"), Budget("day"))
        return self._budget("day", day, self._origin(day))

    def _budget(self, name: str, budget: Budget, origin: str) -> BudgetLine:
        cost, tokens, held_cost, held_tokens, granted = self._queries.budget_fields(
            name, "cost", "tokens", "held_cost", "held_tokens", "granted"
        )
        usd = None if budget.usd is None else budget.usd * (1 + granted)
        most = None if budget.tokens is None else budget.tokens * (1 + granted)
        return BudgetLine(
            name=name,
            origin=origin,
            usd=usd,
            tokens=most,
            on_excess=budget.on_excess,
            spent_usd=cost / 1e9,
            spent_tokens=tokens,
            reserved_usd=held_cost / 1e9,
            reserved_tokens=held_tokens,
            left_usd=None if usd is None else max(0.0, usd - cost / 1e9),
            left_tokens=None if most is None else max(0, most - tokens),
            waiting=self._waiting(name),
        )

    def _origin(self, budget: Budget) -> str:
        given = (each for each in BUDGET_SETTINGS if getattr(budget, each) is not None)
        return ", ".join(sorted({self._rules.origin(budget.scope, each) for each in given}))


def scope_of(budget: str) -> Scope:
    """Return the scope of a budget given as `day`, `run:ID` or `batch:NAME`."""
    return next(scope for scope in SCOPES if budget.partition(":")[0] == scope)
