"""Reads of the limits of model calls: usage, pauses, budgets, waiting calls."""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping, Sequence
from typing import Any

import redis

from sleipnir.scheduler.limits.money import NANO
from sleipnir.scheduler.runs.model import RunContext
from sleipnir.scheduler.runs.spending import Spent, sum_of
from sleipnir.scheduler.store.clock import RedisClock
from sleipnir.scheduler.store.figures.by_time import DAY_MS, SpendingByTime
from sleipnir.scheduler.store.keys import run_key

PARTITION = "{limits}"
SETTINGS = f"{PARTITION}:settings"
PAUSES = f"{PARTITION}:pauses"
AHEAD = f"{PARTITION}:ahead"
PEOPLE = f"{PARTITION}:people"

# A batch's limit in billionths of a dollar, if it has none any more.
UNLIMITED = 2**53
_MINUTE_MS = 60_000


class LimitQueries:
    """Reads of the rate limiter. Budgets are named `day`, `run:ID` or `batch:NAME`."""

    def __init__(self, client: redis.Redis, clock: RedisClock) -> None:
        # redis-py types every answer as a union of its sync and async forms.
        self._redis: Any = client
        self._clock = clock

    def now_ms(self) -> int:
        """Return the time by the limits' clock, in ms."""
        return self._clock.now_ms() + self.ahead_ms()

    def ahead_ms(self) -> int:
        """Return by how many ms the limits' clock is ahead of Redis' clock, if that was set."""
        return int(self._redis.get(AHEAD) or 0)

    def budget_id(self, budget: str) -> str:
        """Return a budget's name in Redis, where each day has one of its own."""
        return f"day:{self._clock.now_ms() // DAY_MS}" if budget == "day" else budget

    def spent(self, budget: str) -> tuple[float, int]:
        """Return the dollars and tokens spent of a budget, without reservations."""
        cost, tokens = self.budget_fields(budget, "cost", "tokens")
        return cost / NANO, tokens

    def budget_record(self, budget: str) -> dict[str, Any]:
        """Return what reserve_call.lua tells of a budget that refuses a call."""
        cost, tokens, granted, limit = self.budget_fields(
            budget, "cost", "tokens", "granted", "limit"
        )
        told = self._redis.hget(f"{PARTITION}:budget:{self.budget_id(budget)}", "told")
        return {"cost": cost, "tokens": tokens, "granted": granted, "limit": limit, "told": told}

    def budget_fields(self, budget: str, *fields: str) -> list[int]:
        """Return fields of a budget's record; costs are in billionths of a dollar.

        A day's budget that no call has used yet has spent what was spent without it.
        """
        key = f"{PARTITION}:budget:{self.budget_id(budget)}"
        *values, begun = self._redis.hmget(key, [*fields, "begun"])
        found = {name: int(value or 0) for name, value in zip(fields, values, strict=True)}
        if budget == "day" and begun is None:
            spent = self.spent_today()
            found["cost"] = round(spent.known_usd * NANO)
            found["tokens"] = spent.prompt_tokens + spent.completion_tokens
        return [found[name] for name in fields]

    def spent_today(self) -> Spent:
        """Return what all runs have spent since midnight UTC, with or without a budget."""
        today = self._clock.now_ms() // DAY_MS
        return sum_of(SpendingByTime(self._redis).total([today]).values())

    def budget_names(self) -> list[str]:
        """Return budgets that calls wait for, even if none of it was used, then budgets in use."""
        names = (
            self._redis.zrevrange(f"{PARTITION}:{kind}", 0, -1) for kind in ("names", "budgets")
        )
        return [name for name in itertools.chain(*names) if name.startswith(("run:", "batch:"))]

    def own_budget_usd(self, budget: str) -> float | None:
        """Return a run's or batch's own budget in dollars; None if the general one applies."""
        scope, _, run_id = budget.partition(":")
        if scope == "batch":
            (limit,) = self.budget_fields(budget, "limit")
            return limit / NANO if 0 < limit < UNLIMITED else None
        context = self._redis.hget(run_key("run", run_id), "context") if scope == "run" else None
        return RunContext.from_json(context).budget_usd if context else None

    def waited_for(self) -> list[str]:
        """Return the names of everything that calls wait for."""
        return list(self._redis.zrange(f"{PARTITION}:names", 0, -1))

    def waiting(self, name: str, now_ms: int) -> int:
        """Return the number of calls that wait for a name."""
        # A call that is overdue most likely belongs to a run that has ended.
        return sum(
            int(self._redis.zcount(f"{PARTITION}:{kind}:{name}", now_ms - _MINUTE_MS, "+inf"))
            for kind in ("waiting", "queue")
        )

    def next_turns(self, name: str, now_ms: int, most: int) -> list[tuple[str, int]]:
        """Return the next calls to retry what they wait for, with the instant in ms."""
        return [
            (call, int(at))
            for kind in ("waiting", "queue")
            for call, at in self._redis.zrange(
                f"{PARTITION}:{kind}:{name}",
                now_ms,
                "+inf",
                byscore=True,
                offset=0,
                num=most,
                withscores=True,
            )
        ]

    def calls_under_way(self, name: str, now_ms: int) -> int:
        """Return the number of occupied slots of a limit, with those of allotments."""
        with self._redis.pipeline(transaction=False) as pipe:
            pipe.zcount(f"{PARTITION}:held:{name}", now_ms, "+inf")
            pipe.zrange(f"{PARTITION}:shares:{name}", now_ms, "+inf", byscore=True)
            calls, shares = pipe.execute()
        return int(calls) + sum(int(share.rpartition("|")[2]) for share in shares)

    def holders(self, name: str, now_ms: int, most: int) -> list[str]:
        """Return the calls that occupy slots of a limit, those whose leases end last first."""
        held = f"{PARTITION}:held:{name}"
        return list(self._redis.zrevrangebyscore(held, "+inf", now_ms, start=0, num=most))

    def in_use(self, name: str, setting: str, state: Mapping[str, str], now_ms: int) -> int:
        """Return how much of a limit is in use: in the last minute; of `concurrency`, now.

        Args:
            state: the limit's counters.
        """
        if setting == "concurrency":
            return self.calls_under_way(name, now_ms)
        kind = setting.partition("_")[0]
        minute, elapsed = divmod(now_ms, _MINUTE_MS)
        count, before = (int(state.get(f"{kind}.{what}", 0)) for what in ("count", "before"))
        counted = int(state.get(f"{kind}.minute", 0))
        if counted == minute - 1:
            count, before = 0, count
        elif counted != minute:
            count = before = 0
        return max(0, round(count + before * (1 - elapsed / _MINUTE_MS)))

    def state(self, name: str) -> dict[str, str]:
        """Return a limit's counters, as lua/lib/limits.lua keeps them."""
        return dict(self._redis.hgetall(f"{PARTITION}:state:{name}"))

    def pauses(self) -> dict[str, Mapping[str, Any]]:
        """Return the pauses caused by provider failures, by name."""
        return {name: json.loads(text) for name, text in self._redis.hgetall(PAUSES).items()}

    def paused_for_people(self, run_ids: Sequence[str]) -> dict[str, str]:
        """Return which of the runs wait for a person to lift a limit, with the limit's name."""
        names = self._redis.hmget(PEOPLE, run_ids) if run_ids else []
        return {
            run_id: name for run_id, name in zip(run_ids, names, strict=True) if name is not None
        }
