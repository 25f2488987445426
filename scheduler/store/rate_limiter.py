"""The rate limiter of model calls: reservations, slots, usage, waiting calls, budgets.

All its keys share one hash tag, and each method is a single script (see
scheduler/store/lua/lib/limits.lua), except for people's commands. A call keeps its name when it
is retried.
"""

from __future__ import annotations

import json
import math
import secrets
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import redis

from sleipnir.scheduler.limits.allotments import Allotted, Amount, Settlement
from sleipnir.scheduler.limits.money import NANO, nano
from sleipnir.scheduler.limits.records import (
    Delay,
    Denied,
    Grant,
    Notices,
    ProviderFailure,
    ReplyCost,
    Reservation,
    Used,
)
from sleipnir.scheduler.limits.rules import Budget, Limit
from sleipnir.scheduler.store.clock import RedisClock
from sleipnir.scheduler.store.limit_queries import (
    AHEAD,
    PARTITION,
    PAUSES,
    SETTINGS,
    UNLIMITED,
    LimitQueries,
)
from sleipnir.scheduler.store.transitions import Scripts

# A worker renews the leases of its calls several times within this.
LEASE_S = 15.0


class RateLimiter:
    """Admits model calls, or tells them when to try again.

    Args:
        kept_s: how long budgets of runs and batches are kept after their last call.
        lease_s: after how long a dead worker's slots and reservations are free again.
    """

    def __init__(
        self,
        client: redis.Redis,
        clock: RedisClock | None = None,
        *,
        kept_s: float = 7 * 86400.0,
        lease_s: float = LEASE_S,
    ) -> None:
        # redis-py types every answer as a union of its sync and async forms.
        self._redis: Any = client
        self._scripts = Scripts(client, clock or RedisClock(client))
        self._kept_ms = int(kept_s * 1000)
        self._lease_ms = int(lease_s * 1000)
        self.queries = LimitQueries(client, self._scripts.clock)

    # ---- for calls

    def reserve(self, reservation: Reservation) -> Grant | Delay | Denied:
        """Admit a call, or say when it may try again."""
        spec = json.dumps(self._spec(reservation))
        while (found := self._call("reserve_call", reservation.call, spec)).verdict == "begin":
            self._begin_day_budget(found.name)
        match found.verdict:
            case "go":
                return _grant(reservation, found)
            case "wait":
                return Delay(int(found.delay_ms) / 1000, found.name, found.why, found.detail)
            case _:
                return Denied(found.name, found.why, found.detail)

    def _begin_day_budget(self, name: str) -> None:
        """Start a day's budget with what was spent that day without one."""
        spent = self.queries.spent_today()
        tokens = spent.prompt_tokens + spent.completion_tokens
        self._call("begin_day_budget", name, nano(spent.known_usd), tokens, self._kept_ms)

    def release(
        self,
        grant: Grant,
        used: Used,
        failure: ProviderFailure | None = None,
        release_id: str | None = None,
    ) -> tuple[Delay | None, list[str]]:
        """Record a call's usage; return its delay, if to be retried, and the calls to wake.

        Args:
            release_id: what makes a repetition the same release; None: a new one.
        """
        reservation = grant.reservation
        spec = {
            **self._spec(reservation),
            "id": release_id or secrets.token_hex(8),
            "budgets": grant.budgets,
            "used_tokens": used.tokens,
            "used_cost": nano(used.usd),
            "took_ms": int(used.took_s * 1000),
        }
        if failure is not None:
            spec["failure"] = _failure(failure)
        done = self._call("release_call", reservation.call, json.dumps(spec))
        if done.verdict == "wait":
            return Delay(int(done.delay_ms) / 1000, done.name, "pause", done.detail), done.woken
        return None, done.woken

    def renew(self, grant: Iterable[Grant]) -> None:
        """Renew the leases of running calls."""
        holdings = [text for each in grant for text in _holdings(each)]
        if holdings:
            self._call("renew_calls", self._lease_ms, *holdings)

    def allot(self, settlement: Settlement) -> Allotted:
        """Settle what calls of an allotment have used, and allot the next; safe to repeat."""
        like, used = settlement.like, settlement.used
        spec = {
            **self._spec(like),
            "id": settlement.settlement_id,
            "held": _amount(settlement.held),
            "held_budgets": settlement.budgets,
            "kept": _amount(settlement.kept),
            "begun": _amount(settlement.begun),
            "ended": _amount(settlement.ended),
            "asked": _amount(settlement.asked),
            "used_tokens": used.tokens,
            "used_cost": nano(used.usd),
            "took_ms": int(used.took_s * 1000),
        }
        found = self._call("allot_calls", settlement.allotment, json.dumps(spec))
        amount = Amount(found.calls, found.tokens, found.worst_tokens, found.cost)
        return Allotted(amount, tuple(found.budgets), tuple(found.woken))

    def notices(self) -> Notices:
        """Return the live changes of settings, and what is paused."""
        with self._redis.pipeline(transaction=False) as pipe:
            pipe.hgetall(SETTINGS)
            pipe.hkeys(PAUSES)
            changes, pauses = pipe.execute()
        return Notices(changes, frozenset(pauses))

    # ---- for people

    def set(self, name: str, setting: str, value: str) -> None:
        """Change a setting of a limit or budget for all workers."""
        self._redis.hset(SETTINGS, f"{name}.{setting}", value)

    def unset(self, name: str, setting: str) -> bool:
        """Return to the configured value; False if it was not changed."""
        return bool(self._redis.hdel(SETTINGS, f"{name}.{setting}"))

    def pause(self, name: str, reason: str) -> None:
        """Stop all calls of this name until `resume`."""
        self._redis.hset(SETTINGS, f"{name}.paused", reason)

    def resume(self, name: str) -> bool:
        """End a pause, whatever started it; False if there was none."""
        by_command = self._redis.hdel(SETTINGS, f"{name}.paused")
        return bool(self._redis.hdel(PAUSES, name) or by_command)

    def grant_again(self, budget: str) -> None:
        """Grant a budget once more: `day`, `run:ID` or `batch:NAME`."""
        key = f"{PARTITION}:budget:{self.queries.budget_id(budget)}"
        with self._redis.pipeline(transaction=False) as pipe:
            pipe.hincrby(key, "granted", 1)
            pipe.pexpire(key, self._kept_ms)
            pipe.execute()

    def begin_own_budget(self, run_id: str, used: Used) -> None:
        """Start a run's own budget with what the run, which has ended, has used.

        Without a budget of its own, nothing was counted towards it until now.
        """
        name = f"run:{run_id}"
        cost, tokens = self.queries.budget_fields(name, "cost", "tokens")
        fields = {"cost": max(cost, nano(used.usd)), "tokens": max(tokens, used.tokens)}
        with self._redis.pipeline(transaction=False) as pipe:
            pipe.hset(f"{PARTITION}:budget:{name}", mapping={**fields, "granted": 0})
            pipe.pexpire(f"{PARTITION}:budget:{name}", self._kept_ms)
            pipe.zadd(f"{PARTITION}:budgets", {name: self.queries.now_ms()})
            pipe.pexpire(f"{PARTITION}:budgets", self._kept_ms)
            pipe.execute()

    def begin_batch_budget(self, batch: str, usd: float, used: Used) -> float:
        """Set a batch's own budget, also for its runs that go on; return what is spent of it.

        Args:
            used: what its runs have used, which was not counted without a budget.
        """
        name = f"batch:{batch}"
        (cost,) = self.queries.budget_fields(name, "cost")
        fields = {"limit": nano(usd)}
        if nano(used.usd) > cost:
            cost = fields["cost"] = nano(used.usd)
        with self._redis.pipeline(transaction=False) as pipe:
            pipe.hset(f"{PARTITION}:budget:{name}", mapping=fields)
            pipe.pexpire(f"{PARTITION}:budget:{name}", self._kept_ms)
            pipe.zadd(f"{PARTITION}:budgets", {name: self.queries.now_ms()})
            pipe.pexpire(f"{PARTITION}:budgets", self._kept_ms)
            pipe.execute()
        return cost / NANO

    def lift_batch_budget(self, batch: str) -> None:
        """Let runs of a batch that were submitted with a budget of the batch go on without it."""
        key = f"{PARTITION}:budget:batch:{batch}"
        if self._redis.hexists(key, "limit"):
            self._redis.hset(key, "limit", UNLIMITED)

    def note_told(self, budget: str, what: str) -> None:
        """Note in a budget's record of which use-up hooks were told last."""
        key = f"{PARTITION}:budget:{self.queries.budget_id(budget)}"
        with self._redis.pipeline(transaction=False) as pipe:
            pipe.hset(key, "told", what)
            pipe.pexpire(key, self._kept_ms)
            pipe.execute()

    def wake(self, name: str, limit: int) -> list[str]:
        """Let the first calls that wait for this name try again now; return them in order."""
        return list(self._call("wake_calls", name, limit).calls)

    # ---- scripts

    def _call(self, name: str, *arguments: str | int) -> Any:
        clock = self._scripts.clock.argument()
        return self._scripts.transition(name)(PARTITION, *arguments, clock=clock)

    def _spec(self, reservation: Reservation) -> dict[str, Any]:
        spec = {
            "names": reservation.names,
            "runs": reservation.runs,
            "limits": [_limit(limit) for limit in reservation.limits],
            "budgets": [_budget(owner, budget) for owner, budget in reservation.budgets],
            "tokens": reservation.tokens,
            "worst_tokens": reservation.worst_tokens,
            "cost": nano(reservation.worst_usd),
            "reply": _reply(reservation.reply),
            "max_wait_ms": int(reservation.max_wait_s * 1000),
            "next_model": reservation.next_model,
            "lease_ms": int(reservation.lease_s * 1000)
            if reservation.lease_s is not None
            else self._lease_ms,
            "kept_ms": self._kept_ms,
        }
        return {name: value for name, value in spec.items() if value is not None}


def set_clock_ahead(client: redis.Redis, by_ms: int) -> None:
    """Compensate for Redis' clock having been set back by `by_ms`, so that no call waits longer."""
    client.incrby(AHEAD, by_ms)


def _grant(reservation: Reservation, found: Any) -> Grant:
    """Return an admitted call; the limiter may have reserved less than was asked for."""
    reserved, reply_tokens = json.loads(found.detail), int(found.delay_ms)
    budgets, waited_ms = tuple(reserved["budgets"] or ()), int(reserved["waited_ms"])
    if not reply_tokens:
        return Grant(reservation, budgets, waited_ms=waited_ms)
    limited = replace(
        reservation,
        worst_usd=reserved["cost"] / NANO,
        worst_tokens=int(reserved["worst_tokens"]),
    )
    return Grant(limited, budgets, reply_tokens, found.name, waited_ms)


def _reply(reply: ReplyCost | None) -> dict[str, float] | None:
    if reply is None:
        return None
    return {
        "prompt_tokens": reply.prompt_tokens,
        "least_tokens": reply.least_tokens,
        "prompt_cost": reply.prompt_usd * NANO,
        "token_cost": reply.usd_per_token * NANO,
    }


def _holdings(grant: Grant) -> list[str]:
    """Return kind, name and member of everything that a call holds, flattened."""
    of = grant.reservation
    slots = [("held", limit.name, of.call) for limit in of.limits]
    hold = f"{of.call}|{nano(of.worst_usd)}|{of.worst_tokens}"
    shares = [("holds", name, hold) for name in grant.budgets]
    return [text for holding in (*slots, *shares) for text in holding]


def _amount(amount: Amount) -> dict[str, int]:
    return {
        "calls": amount.calls,
        "tokens": amount.tokens,
        "worst_tokens": amount.worst_tokens,
        "cost": amount.worst_nano,
    }


def _limit(limit: Limit) -> dict[str, Any]:
    # Leave out None: Lua would take it for a value.
    values = {
        "name": limit.name,
        "requests": limit.requests_per_minute,
        "tokens": limit.tokens_per_minute,
        "concurrency": limit.concurrency,
    }
    return {name: value for name, value in values.items() if value is not None}


def _budget(owner: str, budget: Budget) -> dict[str, Any]:
    values = {
        "id": owner,
        "cost": None if budget.usd is None else nano(budget.usd),
        "tokens": budget.tokens,
        "on_excess": budget.on_excess,
        "own": budget.is_own or None,
    }
    return {name: value for name, value in values.items() if value is not None}


def _failure(failure: ProviderFailure) -> dict[str, Any]:
    values = {
        "kind": failure.kind,
        "name": failure.name,
        "reason": failure.reason,
        "shortest_ms": int(failure.backoff.first_s * 1000),
        "longest_ms": int(failure.backoff.longest_s * 1000),
        "retry_after_ms": None
        if failure.retry_after_s is None
        else math.ceil(failure.retry_after_s * 1000),
    }
    return {name: value for name, value in values.items() if value is not None}
