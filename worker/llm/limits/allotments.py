"""Calls that this process admits by itself, out of what it was allotted of limits and budgets.

Asking Redis before and after each call bounds how many calls all workers can make together. So,
from 20 calls a second with the same limits and budgets on, a process asks for those of the next
second at once. What they have used, it tells later and together; see lua/limits/allot_calls.lua.
"""

from __future__ import annotations

import secrets
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import field
from threading import Lock
from time import monotonic
from typing import TypeAlias
from weakref import WeakSet

from sleipnir.records import dataclass
from sleipnir.scheduler.limits.allotments import (
    NOTHING,
    Allotted,
    Amount,
    Settlement,
    amount_of,
)
from sleipnir.scheduler.limits.records import (
    Delay,
    Denied,
    Grant,
    ProviderFailure,
    Reservation,
    Used,
)
from sleipnir.scheduler.limits.rules import Budget, Limit
from sleipnir.scheduler.store.rate_limiter import RateLimiter

# With fewer calls a second, each is admitted by Redis.
FEWEST_CALLS = 20
# Also how long an allotment lasts, as allot_calls.lua has it.
_SECOND_S = 1.0

# What calls have in common that can have one allotment.
Kind: TypeAlias = tuple[tuple[str, ...], tuple[Limit, ...], tuple[tuple[str, Budget], ...]]


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class AllottedGrant(Grant):
    """A call that was admitted out of an allotment."""

    account: Account = field(kw_only=True)
    amount: Amount = field(kw_only=True)

    # Two calls may be equal, as one may be delivered twice.
    __eq__ = object.__eq__
    __hash__ = object.__hash__


class Account:
    """The allotment of one kind of calls: what is left of it, and what was used; thread-safe.

    Args:
        like: one of the calls.
    """

    def __init__(self, like: Reservation) -> None:
        self.settling = Lock()  # held by the one who settles it
        self._name = secrets.token_hex(8)
        self._like = like
        self._lock = Lock()
        # Calls that were admitted within a second, and when.
        self._admitted: deque[tuple[float, Amount]] = deque()
        self._lately = NOTHING  # these together
        self._left, self._asked_at, self._refused = NOTHING, float("-inf"), False
        # Weak references: a call that was lost must not hold anything forever.
        self._running: WeakSet[AllottedGrant] = WeakSet()
        self._held, self._budgets = NOTHING, tuple[str, ...]()
        self._begun = self._ended = NOTHING  # since it was last settled
        self._used = Used()
        self._unanswered: Settlement | None = None

    def take(self, call: Reservation, now: float) -> AllottedGrant | None:
        """Admit a call if enough is left for it."""
        amount = amount_of(call)
        with self._lock:
            self._lapse(now)
            if not self._left.covers(amount):
                return None
            self._left -= amount
            self._begun += amount
            grant = AllottedGrant(call, self._budgets, account=self, amount=amount)
            self._running.add(grant)
            return grant

    def saw(self, call: Reservation, now: float) -> None:
        """Count a call that was admitted, by whomever."""
        with self._lock:
            self._lately += amount_of(call)
            self._admitted.append((now, amount_of(call)))

    def needs_more(self, now: float) -> bool:
        """Return whether it is time to ask for an allotment."""
        with self._lock:
            self._lapse(now)
            lately = self._last_second(now)
            refused = self._refused and now < self._asked_at + _SECOND_S
            is_enough = self._left.covers(lately.mean())
            return lately.calls >= FEWEST_CALLS and not is_enough and not refused

    def end(self, grant: AllottedGrant, used: Used) -> None:
        """Take note of what a call has used, to settle it later."""
        with self._lock:
            self._running.discard(grant)
            self._ended += grant.amount
            so_far = self._used
            self._used = Used(
                so_far.tokens + used.tokens, so_far.usd + used.usd, so_far.took_s + used.took_s
            )

    def give_up(self) -> None:
        """Admit no more calls out of what is left."""
        with self._lock:
            self._left = NOTHING

    def leave(self, grant: AllottedGrant) -> None:
        """Forget a call that has failed and is settled by itself, and what others were allotted."""
        with self._lock:
            self._running.discard(grant)
            self._left = NOTHING

    def settlement(self, now: float, *, asks: bool) -> Settlement:
        """Return what is to be settled: the same as before, if that was not answered.

        Args:
            asks: whether for an allotment, in place of what is left.
        """
        with self._lock:
            self._lapse(now)
            if self._unanswered is None:
                if asks:
                    self._left, self._asked_at = NOTHING, now
                self._unanswered = self._settlement(self._last_second(now) if asks else NOTHING)
                self._begun = self._ended = NOTHING
                self._used = Used()
            return self._unanswered

    def _settlement(self, asked: Amount) -> Settlement:
        used, calls = self._used, max(1, self._ended.calls)
        return Settlement(
            settlement_id=secrets.token_hex(8),
            allotment=self._name,
            like=self._like,
            budgets=self._budgets,
            held=self._held,
            kept=sum((grant.amount for grant in self._running), self._left),
            begun=self._begun,
            ended=self._ended,
            used=Used(used.tokens, used.usd, used.took_s / calls),
            asked=asked,
        )

    def answered(self, settlement: Settlement, allotted: Allotted) -> None:
        """Take what was allotted."""
        with self._lock:
            self._unanswered = None
            self._held = settlement.kept + allotted.amount
            self._budgets = allotted.budgets
            if settlement.asked != NOTHING:
                self._left = allotted.amount
                self._refused = allotted.amount == NOTHING

    def is_settled(self) -> bool:
        """Return whether Redis knows everything, and reserves nothing for it."""
        with self._lock:
            return (self._held, self._begun, self._unanswered) == (NOTHING, NOTHING, None)

    def is_unused(self, now: float) -> bool:
        """Return whether no call was admitted within a second."""
        with self._lock:
            return self._last_second(now) == NOTHING

    def _lapse(self, now: float) -> None:
        if now >= self._asked_at + _SECOND_S:
            self._left = NOTHING

    def _last_second(self, now: float) -> Amount:
        while self._admitted and self._admitted[0][0] <= now - _SECOND_S:
            self._lately -= self._admitted.popleft()[1]
        return self._lately


class Allotments:
    """Admits the calls of this process: by an allotment, or each by the rate limiter; thread-safe.

    Args:
        wake: called with the calls whose turn it is.
        now: a clock in seconds.
    """

    def __init__(
        self,
        limiter: RateLimiter,
        wake: Callable[[Iterable[str]], object],
        now: Callable[[], float] = monotonic,
    ) -> None:
        self._limiter = limiter
        self._wake = wake
        self._now = now
        self._lock = Lock()
        self._accounts: dict[Kind, Account] = {}
        # Whether there are any: only where they are settled every second.
        self.are_used = False

    def reserve(self, call: Reservation) -> Grant | Delay | Denied:
        """Admit a call, or say when it may try again."""
        # A call that has waited has a place in line.
        if not self.are_used or call.has_waited or call.lease_s is not None:
            return self._limiter.reserve(call)
        account, now = self._account_of(call), self._now()
        verdict = self._allotted(account, call, now) or self._limiter.reserve(call)
        if isinstance(verdict, Grant):
            account.saw(call, now)
        return verdict

    def _account_of(self, call: Reservation) -> Account:
        kind = (call.names, call.limits, call.budgets)
        with self._lock:
            if kind not in self._accounts:
                self._accounts[kind] = Account(call)
            return self._accounts[kind]

    def _allotted(self, account: Account, call: Reservation, now: float) -> Grant | None:
        grant = account.take(call, now)
        if grant is not None or not account.needs_more(now):
            return grant
        # While one call asks, others do not wait for it.
        if account.settling.acquire(blocking=False):
            try:
                self._settle(account, asks=True)
            finally:
                account.settling.release()
        return account.take(call, now)

    def release(
        self, grant: Grant, used: Used, failure: ProviderFailure | None = None
    ) -> tuple[Delay | None, list[str]]:
        """Record a call's usage; return its delay, if to be retried, and the calls to wake."""
        if isinstance(grant, AllottedGrant):
            if failure is None:
                grant.account.end(grant, used)
                return None, []
            grant.account.leave(grant)
        return self._limiter.release(grant, used, failure)

    def renew(self, grants: Iterable[Grant]) -> None:
        """Renew the leases of running calls; allotments are renewed whenever they are settled."""
        self._limiter.renew(each for each in grants if not isinstance(each, AllottedGrant))

    def settle(self) -> None:
        """Settle all allotments."""
        with self._lock:
            accounts = dict(self._accounts)
        for kind, account in accounts.items():
            with account.settling:
                if not account.is_settled():
                    self._settle(account, asks=False)
                elif account.is_unused(self._now()):
                    with self._lock:
                        self._accounts.pop(kind, None)

    def end(self) -> None:
        """Take no more allotments, and give up what is left of these."""
        self.are_used = False
        with self._lock:
            accounts = list(self._accounts.values())
        for account in accounts:
            account.give_up()
        self.settle()

    def _settle(self, account: Account, *, asks: bool) -> None:
        settlement = account.settlement(self._now(), asks=asks)
        allotted = self._limiter.allot(settlement)
        account.answered(settlement, allotted)
        self._wake(allotted.woken)
