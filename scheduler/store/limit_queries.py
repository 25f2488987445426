"""What is to be read of the limits of model calls: their use, pauses, budgets, and what waits."""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping, Sequence
from typing import Any

import redis

from sleipnir.scheduler.runs.model import RunContext
from sleipnir.scheduler.store.clock import RedisClock
from sleipnir.scheduler.store.keys import run_key

PARTITION = "{limits}"
SETTINGS = f"{PARTITION}:settings"
PAUSES = f"{PARTITION}:pauses"
AHEAD = f"{PARTITION}:ahead"
PEOPLE = f"{PARTITION}:people"

NANO = 1_000_000_000  # budgets are counted in billionths of a dollar
_MINUTE_MS = 60_000


class LimitQueries:
    """Reads of the rate limiter. Budgets are named `day`, `run:ID` or `batch:NAME`."""

    def __init__(self, client: redis.Redis, clock: RedisClock) -> None:
        # redis-py types every answer as a union of its sync and async forms.
        self._redis: Any = client
        self._clock = clock

    def now_ms(self) -> int:
        """Return the time by the clock that instants of limits are given in."""
        return self._clock.now_ms() + self.ahead_ms()

    def ahead_ms(self) -> int:
        """By how much that clock is ahead of Redis' own, which was set since."""
        return int(self._redis.get(AHEAD) or 0)

    def budget_id(self, budget: str) -> str:
        """Return a budget's name in Redis: each day has one of its own."""
        return f"day:{self._clock.now_ms() // 86_400_000}" if budget == "day" else budget

    def spent(self, budget: str) -> tuple[float, int]:
        """Return the dollars and tokens that were used of a budget, those reserved not included."""
        cost, tokens = self.budget_fields(budget, "cost", "tokens")
        return cost / NANO, tokens

    def budget_fields(self, budget: str, *fields: str) -> list[int]:
        """Fields of a budget's record: costs in billionths of a dollar."""
        key = f"{PARTITION}:budget:{self.budget_id(budget)}"
        return [int(value or 0) for value in self._redis.hmget(key, fields)]

    def budget_names(self) -> list[str]:
        """Budgets that calls wait for, which may not have been used at all; then those used."""
        names = (
            self._redis.zrevrange(f"{PARTITION}:{kind}", 0, -1) for kind in ("names", "budgets")
        )
        return [name for name in itertools.chain(*names) if name.startswith(("run:", "batch:"))]

    def own_budget_usd(self, budget: str) -> float | None:
        """What one run alone may use, `budget` as `run:ID`; None if it may what all runs may."""
        scope, _, run_id = budget.partition(":")
        context = self._redis.hget(run_key("run", run_id), "context") if scope == "run" else None
        return RunContext.from_json(context).budget_usd if context else None

    def waited_for(self) -> list[str]:
        """Return the names of everything that calls wait for."""
        return list(self._redis.zrange(f"{PARTITION}:names", 0, -1))

    def waiting(self, name: str, now_ms: int) -> int:
        """Return how many calls wait for a name."""
        # One that did not come back in time is most likely of a run that is over.
        return sum(
            int(self._redis.zcount(f"{PARTITION}:{kind}:{name}", now_ms - _MINUTE_MS, "+inf"))
            for kind in ("waiting", "queue")
        )

    def next_turns(self, name: str, now_ms: int, most: int) -> list[tuple[str, int]]:
        """Return the calls that come back next to what they wait for, and when."""
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
        """Return how many slots of a limit are taken."""
        return int(self._redis.zcount(f"{PARTITION}:held:{name}", now_ms, "+inf"))

    def state(self, name: str) -> dict[str, str]:
        """What a limit has counted, as lua/lib/limits.lua keeps it."""
        return dict(self._redis.hgetall(f"{PARTITION}:state:{name}"))

    def pauses(self) -> dict[str, Mapping[str, Any]]:
        """Return the pauses that failures of providers began, by name."""
        return {name: json.loads(text) for name, text in self._redis.hgetall(PAUSES).items()}

    def paused_for_people(self, run_ids: Sequence[str]) -> dict[str, str]:
        """Those of the runs that a person has to let go on, each with the name it waits for."""
        names = self._redis.hmget(PEOPLE, run_ids) if run_ids else []
        return {
            run_id: name for run_id, name in zip(run_ids, names, strict=True) if name is not None
        }
