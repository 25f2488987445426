"""Simulated model calls, which arrive, wait and run as the rate limiter decides."""

from __future__ import annotations

import heapq
import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import field, replace
from functools import partial
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
from sleipnir.worker.llm.limits.allotments import Allotments, AllottedGrant
from tests.support.engine import Clock

MINUTE_MS = 60_000
SETTLED_MS = 1_000  # how often processes settle
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


def allotments_of(
    limiter: RateLimiter, clock: Clock, wake: Callable[[Iterable[str]], object] = list
) -> Allotments:
    """Return the allotments of a process on a clock moved by hand."""
    allotments = Allotments(limiter, wake, clock.passed_s)
    allotments.are_used = True
    return allotments


@dataclass
class Simulation:
    """Simulates calls against the limiter, event by event, on a clock moved by hand.

    Args:
        late_ms: calls come back up to this much after their time.
        took_ms: how long each call takes.
        used: tokens of each call; by default those reserved.
        processes: how many processes with allotments make the calls; with none, the limiter admits
            each of them.
    """

    limiter: RateLimiter
    clock: Clock
    random: Random
    late_ms: int = 0
    took_ms: int = 500
    used: Mapping[str, int] = field(default_factory=dict)
    processes: int = 0
    started: list[tuple[int, Reservation]] = field(default_factory=list)
    returns: Counter[str] = field(default_factory=Counter)
    refused: int = 0
    allotted: int = 0
    spent_usd: float = 0.0
    at_once: int = 0
    most_at_once: int = 0

    def __post_init__(self) -> None:
        self._numbers = itertools.count()
        self._events: list[tuple[int, int, Callable[[], None]]] = []
        self._coming: dict[str, tuple[int, Reservation]] = {}  # calls, and numbers of events
        self._void: set[int] = set()  # events of calls that were woken before
        self._gates = [
            allotments_of(self.limiter, self.clock, self._wake) for _ in range(self.processes)
        ]

    def run(self, arrivals: Iterable[tuple[int, Reservation]]) -> None:
        """Let calls arrive, each so many ms from now, and simulate until all are done."""
        begin = self.clock.ms
        for at, each in arrivals:
            self._come_at(begin + at, each)
        self._settle()
        while self._events:
            at, number, act = heapq.heappop(self._events)
            if number not in self._void:
                self.clock.ms = max(self.clock.ms, at)
                act()

    def _at(self, ms: int, act: Callable[[], None]) -> int:
        number = next(self._numbers)
        heapq.heappush(self._events, (ms, number, act))
        return number

    def _settle(self) -> None:
        for gate in self._gates:
            gate.settle()
        if self._gates and self._events:
            self._at(self.clock.ms + SETTLED_MS, self._settle)

    def _come_at(self, ms: int, each: Reservation) -> None:
        self._coming[each.call] = self._at(ms, partial(self._come, each)), each

    def _come(self, each: Reservation) -> None:
        del self._coming[each.call]
        gate = self.random.choice(self._gates) if self._gates else self.limiter
        verdict = gate.reserve(each)
        match verdict:
            case Grant():
                self._start(verdict.reservation)
                self.allotted += isinstance(verdict, AllottedGrant)
                ends_ms = self.clock.ms + self.took_ms
                self._at(ends_ms, partial(self._end, gate, verdict))
            case Denied():
                self.refused += 1
            case Delay():
                self.returns[each.call] += 1
                back = self.clock.ms + round(verdict.delay_s * 1000)
                late = self.random.randint(0, self.late_ms)
                self._come_at(back + late, replace(each, has_waited=True))

    def _start(self, each: Reservation) -> None:
        self.started.append((self.clock.ms, each))
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)

    def _end(self, gate: Allotments | RateLimiter, going: Grant) -> None:
        """End a call; the calls that this wakes come back now."""
        self.at_once -= 1
        of = going.reservation
        usd = of.worst_usd * self.random.random()
        self.spent_usd += usd
        tokens = self.used.get(of.call, of.tokens)
        _, woken = gate.release(going, Used(tokens, usd, self.took_ms / 1000))
        self._wake(woken)

    def _wake(self, calls: Iterable[str]) -> None:
        for call in calls:
            if call in self._coming:
                number, each = self._coming[call]
                self._void.add(number)
                self._come_at(self.clock.ms, each)

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
