"""The rate limiter of all model calls: what they reserve, hold and use, and what waits for what.

Everything lies under one hash tag, and each method but for the commands of people is one script
(see scheduler/store/lua/lib/limits.lua). A call is known by a name that is the same whenever it is
tried again.
"""

from __future__ import annotations

import json
import math
import secrets
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

import redis

from sleipnir.scheduler.limits.rules import Budget, Limit, Scope
from sleipnir.scheduler.store.scripts import Transition

PARTITION = "{limits}"
SETTINGS = f"{PARTITION}:settings"
PAUSES = f"{PARTITION}:pauses"
AHEAD = f"{PARTITION}:ahead"
PEOPLE = f"{PARTITION}:people"

# A worker renews what its calls hold several times in that.
LEASE_S = 15.0
_NANO = 1_000_000_000
# Scripts that calls meet; the others are for people.
_NAMES = ("reserve_call", "release_call", "renew_calls", "wake_calls")


@dataclass(frozen=True, slots=True)
class Reservation:
    """What a call reserves."""

    call: str
    names: tuple[str, ...]  # of pauses it heeds
    runs: tuple[str, ...]  # that wait if it does: its own, and the root
    limits: tuple[Limit, ...] = ()
    budgets: tuple[tuple[str, Budget], ...] = ()  # each with its owner: a run, a batch
    tokens: int = 0  # what it is likely to use
    worst_tokens: int = 0  # what it uses at most
    worst_usd: float = 0.0
    max_wait_s: float = 0.0
    next_model: bool = False  # rather fail than wait for a provider that is not to be had


@dataclass(frozen=True, slots=True)
class Grant:
    """A call may go; it holds what it reserved until it is released."""

    reservation: Reservation
    budgets: tuple[str, ...] = ()

    def holdings(self) -> list[str]:
        """Kind, name and member of all it holds, one after the other."""
        of = self.reservation
        slots = [("held", limit.name, of.call) for limit in of.limits]
        hold = f"{of.call}|{_nano(of.worst_usd)}|{of.worst_tokens}"
        shares = [("holds", name, hold) for name in self.budgets]
        return [text for holding in (*slots, *shares) for text in holding]


@dataclass(frozen=True, slots=True)
class Delay:
    """A call is to come back."""

    delay_s: float
    name: str
    why: str  # as in reserve_call.lua
    detail: str = ""

    @property
    def for_person(self) -> bool:
        """Whether it goes on when a person says so; until then it only looks now and then."""
        return self.why in ("command", "budget")


@dataclass(frozen=True, slots=True)
class Denied:
    """A call cannot be had."""

    name: str
    why: str  # budget | pause
    detail: str


@dataclass(frozen=True, slots=True)
class Used:
    """What a call used in fact."""

    tokens: int = 0
    usd: float = 0.0
    took_s: float = 0.0


# Too many calls, or a server that has too much to do; nobody there; nothing left to spend.
ProviderFailureKind: TypeAlias = Literal["throttled", "unavailable", "quota_exceeded"]


@dataclass(frozen=True, slots=True)
class ProviderFailure:
    """A failure that passes by itself: the name it is counted against pauses."""

    kind: ProviderFailureKind
    name: str
    reason: str
    shortest_s: float  # of the first pause; it doubles with each failure after a pause
    longest_s: float
    retry_after_s: float | None = None  # what the server asked for instead


@dataclass(frozen=True, slots=True)
class Notices:
    """What calls must know of that nobody configured."""

    changes: Mapping[str, str] = field(default_factory=dict)
    pauses: frozenset[str] = frozenset()


class RateLimiter:
    """Lets model calls go, or tells them when to come back.

    Args:
        clock: the time in ms for tests; by default Redis tells it.
        kept_s: how long budgets of runs and batches are kept after their last call.
        lease_s: until what a dead worker's calls held is free again.
    """

    def __init__(
        self,
        client: redis.Redis,
        clock: Callable[[], int] | None = None,
        *,
        kept_s: float = 7 * 86400.0,
        lease_s: float = LEASE_S,
    ) -> None:
        # redis-py types every answer as a union of its sync and async forms.
        self.redis: Any = client
        self._clock = clock
        self._kept_ms = int(kept_s * 1000)
        self._lease_ms = int(lease_s * 1000)
        self._scripts = {name: Transition(name, client, {}, lambda _woken: None) for name in _NAMES}

    # ---- what calls do

    def reserve(self, reservation: Reservation) -> Grant | Delay | Denied:
        """Let a call go, or say when it may come back."""
        found = self._call("reserve_call", reservation.call, json.dumps(self._spec(reservation)))
        match found.verdict:
            case "go":
                return Grant(reservation, tuple(json.loads(found.detail) or ()))
            case "wait":
                return Delay(int(found.delay_ms) / 1000, found.name, found.why, found.detail)
            case _:
                return Denied(found.name, found.why, found.detail)

    def release(
        self, grant: Grant, used: Used, failure: ProviderFailure | None = None
    ) -> tuple[Delay | None, list[str]]:
        """Note what a call used; if it failed, whether it waits. And whose turn it is now."""
        reservation = grant.reservation
        spec = {
            **self._spec(reservation),
            "id": secrets.token_hex(8),
            "budgets": grant.budgets,
            "used_tokens": used.tokens,
            "used_cost": _nano(used.usd),
            "took_ms": int(used.took_s * 1000),
        }
        if failure is not None:
            spec["failure"] = _failure(failure)
        done = self._call("release_call", reservation.call, json.dumps(spec))
        if done.verdict == "wait":
            return Delay(int(done.delay_ms) / 1000, done.name, "pause", done.detail), done.woken
        return None, done.woken

    def renew(self, grant: Iterable[Grant]) -> None:
        """Keep what calls under way hold."""
        holdings = [text for each in grant for text in each.holdings()]
        if holdings:
            self._call("renew_calls", self._lease_ms, *holdings)

    def notices(self) -> Notices:
        """Live changes, and what is paused."""
        with self.redis.pipeline(transaction=False) as pipe:
            pipe.hgetall(SETTINGS)
            pipe.hkeys(PAUSES)
            changes, pauses = pipe.execute()
        return Notices(changes, frozenset(pauses))

    # ---- what people do

    def set(self, name: str, setting: str, value: str) -> None:
        """Change a limit or budget for all workers."""
        self.redis.hset(SETTINGS, f"{name}.{setting}", value)

    def unset(self, name: str, setting: str) -> bool:
        """Go back to what is configured; False if it was not changed."""
        return bool(self.redis.hdel(SETTINGS, f"{name}.{setting}"))

    def pause(self, name: str, reason: str) -> None:
        """Let no call under this name go until `resume`."""
        self.redis.hset(SETTINGS, f"{name}.paused", reason)

    def resume(self, name: str) -> bool:
        """End a pause, whoever began it; False if there was none."""
        by_command = self.redis.hdel(SETTINGS, f"{name}.paused")
        return bool(self.redis.hdel(PAUSES, name) or by_command)

    def grant_again(self, budget: str) -> None:
        """Let a budget be used up once more, `budget` as `day`, `run:ID` or `batch:NAME`."""
        key = f"{PARTITION}:budget:{self.budget_id(budget)}"
        with self.redis.pipeline(transaction=False) as pipe:
            pipe.hincrby(key, "granted", 1)
            pipe.pexpire(key, self._kept_ms)
            pipe.execute()

    def wake(self, name: str, limit: int) -> list[str]:
        """Give calls that wait for this name their turn now; returns them, first come first."""
        return list(self._call("wake_calls", name, limit).calls)

    def budget_id(self, budget: str) -> str:
        """A budget's name in the limiter: each day has one of its own."""
        return f"day:{self._clock_ms() // 86_400_000}" if budget == "day" else budget

    def now_ms(self) -> int:
        """The time by the clock that instants are given in."""
        return self._clock_ms() + self.ahead_ms()

    def ahead_ms(self) -> int:
        """By how much that clock is ahead of Redis' own, which was set since."""
        return int(self.redis.get(AHEAD) or 0)

    def _clock_ms(self) -> int:
        if self._clock is not None:
            return self._clock()
        seconds, microseconds = self.redis.time()
        return int(seconds) * 1000 + int(microseconds) // 1000

    def spent(self, budget: str) -> tuple[float, int]:
        """The dollars and tokens that were used of a budget, those reserved not included."""
        key = f"{PARTITION}:budget:{self.budget_id(budget)}"
        cost, tokens = self.redis.hmget(key, "cost", "tokens")
        return int(cost or 0) / _NANO, int(tokens or 0)

    def used_up(self, name: str, budget: Budget) -> bool:
        """Whether a budget has nothing left, `name` as `day`, `run:ID` or `batch:NAME`."""
        usd, tokens = self.spent(name)
        return (budget.usd is not None and usd >= budget.usd) or (
            budget.tokens is not None and tokens >= budget.tokens
        )

    # ---- scripts

    def _call(self, name: str, *arguments: str | int) -> Any:
        now = "" if self._clock is None else str(self._clock())
        return self._scripts[name](PARTITION, *arguments, clock=now)

    def _spec(self, reservation: Reservation) -> dict[str, Any]:
        return {
            "names": reservation.names,
            "runs": reservation.runs,
            "limits": [_limit(limit) for limit in reservation.limits],
            "budgets": [_budget(owner, budget) for owner, budget in reservation.budgets],
            "tokens": reservation.tokens,
            "worst_tokens": reservation.worst_tokens,
            "cost": _nano(reservation.worst_usd),
            "max_wait_ms": int(reservation.max_wait_s * 1000),
            "next_model": reservation.next_model,
            "lease_ms": self._lease_ms,
            "kept_ms": self._kept_ms,
        }


def set_clock_ahead(client: redis.Redis, by_ms: int) -> None:
    """Make up for Redis' clock having been set (back by `by_ms`): no call waits for longer."""
    client.incrby(AHEAD, by_ms)


def call_of(key: str, model: str) -> str:
    """How the limiter calls the call of a caller: it may try several models."""
    return f"{key} {model}"


def visit_of(call: str) -> tuple[str, str]:
    """The run and the visit of a call: its caller's key is `run:visit:attempt:number`."""
    run_id, rest = call.partition(" ")[0].split(":", 1)
    return run_id, rest.rsplit(":", 2)[0]


def owner_of(scope: Scope, root: str, batch: str | None) -> str | None:
    """The name of the budget that calls of a run come under; None if there is none."""
    match scope:
        case "run":
            return f"run:{root}"
        case "batch":
            return f"batch:{batch}" if batch is not None else None
        case "day":
            return "day"


def _nano(usd: float) -> int:
    return math.ceil(usd * _NANO)


def _limit(limit: Limit) -> dict[str, Any]:
    # What is None stays out: Lua would take it for a value.
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
        "cost": None if budget.usd is None else _nano(budget.usd),
        "tokens": budget.tokens,
        "on_excess": budget.on_excess,
    }
    return {name: value for name, value in values.items() if value is not None}


def _failure(failure: ProviderFailure) -> dict[str, Any]:
    values = {
        "kind": failure.kind,
        "name": failure.name,
        "reason": failure.reason,
        "shortest_ms": int(failure.shortest_s * 1000),
        "longest_ms": int(failure.longest_s * 1000),
        "retry_after_ms": None
        if failure.retry_after_s is None
        else math.ceil(failure.retry_after_s * 1000),
    }
    return {name: value for name, value in values.items() if value is not None}
