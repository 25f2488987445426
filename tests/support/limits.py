"""Simulated model calls, which arrive, wait and run as the rate limiter decides."""

from __future__ import annotations

import heapq
import itertools
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import field
from random import Random
from typing import Any

from sleipnir.records import dataclass
from sleipnir.scheduler.limits.records import (
    Delay,
    Denied,
    Grant,
    ProviderFailure,
    Reservation,
    Used,
)
from sleipnir.scheduler.limits.rules import Budget, Limit
from sleipnir.scheduler.process.backoff import PROVIDER
from sleipnir.scheduler.store.rate_limiter import RateLimiter
from tests.support.engine import Clock

MINUTE_MS = 60_000
UNAVAILABLE = ProviderFailure("unavailable", "p", "Connection refused", PROVIDER)


def reservation(number: int, *limits: Limit, **fields: Any) -> Reservation:
    """Return the reservation for a call of a visit of its own to the model `p:m`."""
    run_id = f"{number:016x}"
    return Reservation(f"{run_id}:1/ask:1:1 p:m", ("p", "p:m"), (run_id,), limits, **fields)


def budgeted(number: int, *budgets: tuple[str, Budget], **fields: Any) -> Reservation:
    """Return a reservation with budgets, each under the name of its owner."""
    return reservation(number, budgets=budgets, **fields)


def granted(verdict: Grant | Delay | Denied) -> Grant:
    """Return the verdict, which must be a grant."""
    assert isinstance(verdict, Grant), verdict
    return verdict


def waits(verdict: Grant | Delay | Denied) -> Delay:
    """Return the verdict, which must be a delay."""
    assert isinstance(verdict, Delay), verdict
    return verdict


@dataclass
class Simulation:
    """Simulates calls against the limiter, event by event, on a clock moved by hand.

    Args:
        late_ms: calls come back up to this much after their time.
        took_ms: how long each call takes.
        used: tokens of each call; by default those reserved.
    """

    limiter: RateLimiter
    clock: Clock
    random: Random
    late_ms: int = 0
    took_ms: int = 500
    used: Mapping[str, int] = field(default_factory=dict)
    started: list[tuple[int, Reservation]] = field(default_factory=list)
    returns: Counter[str] = field(default_factory=Counter)
    at_once: int = 0
    most_at_once: int = 0

    def run(self, arrivals: Iterable[tuple[int, Reservation]]) -> None:
        """Let calls arrive, each so many ms from now, and simulate until all are done."""
        numbers = itertools.count()
        begin = self.clock.ms
        events: list[tuple[int, int, Reservation, Grant | None]] = [
            (begin + at, next(numbers), each, None) for at, each in arrivals
        ]
        heapq.heapify(events)
        while events:
            at, _, each, going = heapq.heappop(events)
            self.clock.ms = max(self.clock.ms, at)
            if going is not None:
                heapq.heapify(events := self._release(going, events, numbers))
                continue
            verdict = self.limiter.reserve(each)
            if isinstance(verdict, Grant):
                self._start(each)
                heapq.heappush(events, (self.clock.ms + self.took_ms, next(numbers), each, verdict))
            else:
                self.returns[each.call] += 1
                back = self.clock.ms + round(waits(verdict).delay_s * 1000)
                late = self.random.randint(0, self.late_ms)
                heapq.heappush(events, (back + late, next(numbers), each, None))

    def _start(self, each: Reservation) -> None:
        self.started.append((self.clock.ms, each))
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)

    def _release(self, going: Grant, events: list[Any], numbers: Any) -> list[Any]:
        """End a call; return the events, in which the calls that this wakes come back now."""
        self.at_once -= 1
        tokens = self.used.get(going.reservation.call, going.reservation.tokens)
        _, woken = self.limiter.release(going, Used(tokens, took_s=self.took_ms / 1000))
        return [
            (self.clock.ms, next(numbers), each, None)
            if each.call in woken and end is None
            else (at, number, each, end)
            for at, number, each, end in events
        ]

    def most_in_a_minute(self, of: str = "requests") -> int:
        """Return the most requests, or tokens, in any sixty seconds."""
        times = [at for at, _ in self.started]
        amounts = [1 if of == "requests" else self._tokens(each) for _, each in self.started]
        most = first = total = 0
        for last, at in enumerate(times):
            total += amounts[last]
            while times[first] <= at - MINUTE_MS:
                total -= amounts[first]
                first += 1
            most = max(most, total)
        return most

    def _tokens(self, each: Reservation) -> int:
        return self.used.get(each.call, each.tokens)
