"""The gate before each model call: rates, slots, pauses and budgets shared by all workers.

A call that has to wait is told so and holds nothing meanwhile. Where no limit is configured and
nothing is paused, a call needs no round trip: the gate reads changes once a second.
"""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import field, replace
from functools import partial
from time import monotonic
from typing import Any, TypeVar
from weakref import WeakSet

from sleipnir.lazy import lazy_imports
from sleipnir.records import dataclass
from sleipnir.scheduler.config.models import ModelSettings
from sleipnir.scheduler.limits.messages import budget_excess, pause_of, reason
from sleipnir.scheduler.limits.records import (
    Delay,
    Denied,
    Grant,
    Notices,
    ProviderFailure,
    ReplyCost,
    Reservation,
    Used,
    call_of,
    owner_of,
    visit_of,
)
from sleipnir.scheduler.limits.rules import Budget, Rules, names_of
from sleipnir.scheduler.process.periodic import repeat
from sleipnir.scheduler.runs.model import NO_USAGE, ModelCall, Usage
from sleipnir.scheduler.store.errors import RedisError
from sleipnir.scheduler.store.figures.failed_calls import count_failed_call
from sleipnir.scheduler.store.rate_limiter import LEASE_S, RateLimiter
from sleipnir.scheduler.store.run_store import RunStore
from sleipnir.worker.llm.caller import Caller, MustWait
from sleipnir.worker.llm.client import (
    BudgetRefused,
    Embedded,
    ModelCallFailed,
    ModelRequest,
    NotCalled,
    Reply,
    Reranked,
)
from sleipnir.worker.llm.limits.allotments import Allotments
from sleipnir.worker.llm.limits.estimate import ReplyLengths, prompt_tokens
from sleipnir.worker.llm.provider.pricing import Pricing, worst_of_prompt
from sleipnir.worker.llm.provider.provider_failures import provider_failure_of

# Few budgets are ever used up.
with lazy_imports():
    from sleipnir.scheduler.store.hooks import used_up

logger = logging.getLogger(__name__)

_REFRESH_S = 1.0
_RENEWALS_PER_LEASE = 3
# Tokens of a reply that are thoughts, by `reasoning_effort`: a shorter one would have no answer,
# and some providers refuse to be asked for it.
_THOUGHTS = {"low": 1_024, "medium": 2_048, "high": 4_096, "xhigh": 8_192, "max": 16_384}
# What a provider asks for a request in a batch, of its price for others.
BATCH_PRICE = 0.5
# What a model returns, with what that has used.
Paid = TypeVar("Paid", Reply, Embedded, Reranked)


@dataclass(slots=True, eq=False, weakref_slot=True)
class Permit:
    """The right to make one call, and the account of it."""

    _gate: Gate
    grant: Grant
    _model: str
    _counted: bool  # whether the limiter needs to know what the call used
    _began_at: float = field(default_factory=monotonic)

    def make(self, call: Callable[[], Paid], caller: Caller) -> Paid:
        """Make the call, once, and account for it: in limits, in budgets, and in its own usage.

        One that fails is counted at once, as nothing else may come of it.

        Args:
            caller: for whose node it is made; sums of a run are by node and model.

        Raises:
            ModelCallFailed: by the call.
            MustWait: make the call again later, as its failure may pass within its max wait.
        """
        try:
            paid = call()
        except ModelCallFailed as failure:
            if caller.awaits_reply and not isinstance(failure, NotCalled):
                self._gate.count_failed(caller.run_id, caller.node, self._model)
            self._failed(failure)
            raise
        usage = paid.usage
        self._gate.lengths.saw(self._model, usage.completion_tokens)
        if self._counted:
            self._gate.close(self, self._used(usage))
        ms = round((monotonic() - self._began_at) * 1000)
        made = ModelCall(caller.node, self._model, ms, self.grant.waited_ms)
        return replace(paid, usage=replace(usage, call=made))

    def _failed(self, failure: ModelCallFailed) -> None:
        provider, model = names_of(self._model)
        limited = [limit.name for limit in self.grant.reservation.limits]
        passing = provider_failure_of(failure, provider, limited[-1] if limited else model)
        if not self._counted and passing is None:
            return
        delay = self._gate.close(self, self._used(NO_USAGE), passing)
        if delay is not None:
            raise MustWait(delay.delay_s, reason(delay))

    def _used(self, usage: Usage) -> Used:
        tokens = usage.prompt_tokens + usage.completion_tokens
        return Used(tokens, usage.cost_usd or 0.0, monotonic() - self._began_at)


def hold_text(grant: Grant) -> str:
    """Return what a grant holds of budgets as a text, '' for nothing."""
    if not grant.budgets:
        return ""
    of = grant.reservation
    return json.dumps([of.call, of.worst_usd, of.worst_tokens, *grant.budgets])


def held_grant(text: str) -> Grant:
    """Return the grant of a text of `hold_text`."""
    call, worst_usd, worst_tokens, *budgets = json.loads(text)
    held = Reservation(call, (), (), worst_tokens=worst_tokens, worst_usd=worst_usd)
    return Grant(held, tuple(budgets))


def _wake_all(wake: Callable[[str, str], object], calls: Iterable[str]) -> None:
    for call in calls:
        wake(*visit_of(call))


def _budget_of(owner: str, reservation: Reservation) -> Budget:
    return next(budget for name, budget in reservation.budgets if name == owner)


class Gate:
    """The gate of one worker process; thread-safe.

    Args:
        wake: called with waiting calls when it is their turn.
        count_failed: called with the run, node and model of a call that has failed.
        used_up: called with a budget's owner, the budget and its record when it refuses a call.
    """

    def __init__(
        self,
        limiter: RateLimiter,
        settings: ModelSettings,
        wake: Callable[[Iterable[str]], object],
        count_failed: Callable[[str, str, str], object],
        used_up: Callable[[str, Budget, Mapping[str, Any]], object],
    ) -> None:
        self._limiter = limiter
        self._allotments = Allotments(limiter, wake)
        self._settings = settings
        self._pricing = Pricing(settings)
        self._wake = wake
        self.count_failed = count_failed
        self._used_up = used_up
        self._rules = Rules(settings, {})
        self._notices = Notices()
        # Weak references: a permit that was lost must not be renewed forever.
        self._open: WeakSet[Permit] = WeakSet()
        self._lock = threading.Lock()
        self._renew_at = monotonic()
        self.lengths = ReplyLengths(settings.max_output_tokens)

    @classmethod
    def of(cls, store: RunStore) -> Gate:
        """Return a gate for the calls of this store's runs."""
        settings = store.settings
        limiter = RateLimiter(store.client, store.clock, kept_s=settings.retention_s)
        return cls(
            limiter,
            settings.models,
            partial(_wake_all, store.parking.wake),
            partial(count_failed_call, store),
            partial(used_up.tell_used_up, store),
        )

    # ---- one call

    def reserve(self, request: ModelRequest, caller: Caller, *, next_model: bool = False) -> Permit:
        """Reserve what a call needs and return its permit.

        Args:
            next_model: whether another model can be asked; then an unavailable provider is a
                failure, not something to wait for.

        Raises:
            MustWait: not now.
            NotCalled: a budget does not allow it, or `next_model` is to be asked.
        """
        reservation = self._reservation(request, caller, next_model=next_model)
        if not (reservation.limits or reservation.budgets or self._is_paused(reservation)):
            return Permit(self, Grant(reservation), request.model, _counted=False)
        permit = Permit(self, self._admitted(reservation), request.model, _counted=True)
        with self._lock:
            self._open.add(permit)
        return permit

    def reserve_batched(self, request: ModelRequest, caller: Caller, lease_s: float) -> Grant:
        """Reserve what a request in a provider's batch may cost of budgets, at half price.

        Rates and slots do not apply. Released with `settle`.

        Raises:
            MustWait: running calls have reserved what it would need.
            BudgetRefused: a budget does not allow it.
        """
        full = self._reservation(request, caller, next_model=False)
        if not full.budgets:
            return Grant(full)
        reply = full.reply
        half = replace(
            full,
            names=(),
            limits=(),
            worst_usd=full.worst_usd * BATCH_PRICE,
            reply=reply
            and replace(
                reply,
                prompt_usd=reply.prompt_usd * BATCH_PRICE,
                usd_per_token=reply.usd_per_token * BATCH_PRICE,
            ),
            lease_s=lease_s,
        )
        return self._admitted(half)

    def pause_of(self, model: str) -> str | None:
        """Return why a person has stopped a model's calls, in one line; None: nobody has."""
        return pause_of(model, self._rules)

    def settle(self, hold: str, used: Used, release_id: str) -> None:
        """Tell budgets what such a request has used; safe to repeat with the same id."""
        grant = held_grant(hold)
        _, woken = self._limiter.release(grant, used, release_id=release_id)
        self._wake(woken)

    def _admitted(self, reservation: Reservation) -> Grant:
        """Return the grant of a reservation; raises as `reserve`."""
        verdict = self._allotments.reserve(reservation)
        match verdict:
            case Delay(name=name, why="budget", detail=spent) | Denied(name, "budget", spent):
                self._used_up(name, _budget_of(name, reservation), json.loads(spent))
        match verdict:
            case Delay():
                why = reason(verdict, reservation, self._rules)
                raise MustWait(verdict.delay_s, why, for_person=verdict.for_person)
            case Denied(name, "budget", spent):
                budget = _budget_of(name, reservation)
                raise BudgetRefused(budget_excess(name, budget, spent, reservation))
            case Denied(name, _, why):
                raise NotCalled(f"{name} is paused: {why}")
        return verdict

    def _reservation(
        self, request: ModelRequest, caller: Caller, *, next_model: bool
    ) -> Reservation:
        limits = self._rules.limits(request.model)
        budgets = self._budgets(caller)
        prompt = prompt_tokens(request) if limits or budgets else 0
        worst = prompt + self._longest_reply(request) if budgets else 0
        return Reservation(
            call=call_of(caller.key, request.model),
            names=names_of(request.model),
            runs=tuple(dict.fromkeys((caller.run_id, caller.root))),
            limits=limits,
            budgets=budgets,
            tokens=prompt + self._expected_reply(request),
            worst_tokens=worst,
            worst_usd=self._worst_usd(request, prompt, worst - prompt, budgets),
            reply=self._reply(request, prompt, worst - prompt, budgets) if worst else None,
            max_wait_s=0.0 if next_model else self._max_wait_s(caller),
            next_model=next_model,
            has_waited=caller.has_waited,
        )

    def _max_wait_s(self, caller: Caller) -> float:
        settings = self._settings
        return settings.max_wait_s if caller.batch is None else settings.batch_max_wait_s

    def _budgets(self, caller: Caller) -> tuple[tuple[str, Budget], ...]:
        budgets = self._rules.budgets
        if caller.budget_usd is not None or caller.batch_budget_usd is not None:
            budgets = self._rules.budgets_with(caller.budget_usd, caller.batch_budget_usd)
        owned = ((owner_of(each.scope, caller.root, caller.batch), each) for each in budgets)
        return tuple((owner, budget) for owner, budget in owned if owner is not None)

    def _longest_reply(self, request: ModelRequest) -> int:
        if request.max_tokens is not None:
            return request.max_tokens
        return self._pricing.longest_reply(request.model) or self._settings.max_output_tokens

    def _expected_reply(self, request: ModelRequest) -> int:
        expected = self.lengths.expected(request.model)
        return expected if request.max_tokens is None else min(expected, request.max_tokens)

    def _worst_usd(
        self,
        request: ModelRequest,
        prompt: int,
        completion: int,
        budgets: tuple[tuple[str, Budget], ...],
    ) -> float:
        bounded = [budget.scope for _, budget in budgets if budget.usd is not None]
        if not bounded:
            return 0.0
        price = self._pricing.price_of(request.model)
        if price is None:
            raise BudgetRefused(
                f"the budget '{bounded[0]}' is in USD, and the price of {request.model} is not "
                f"known: set it in models.prices of config.yaml, or bound tokens instead"
            )
        return (prompt * worst_of_prompt(price, request) + completion * price.completion) / 1e6

    def _reply(
        self,
        request: ModelRequest,
        prompt: int,
        longest: int,
        budgets: tuple[tuple[str, Budget], ...],
    ) -> ReplyCost | None:
        thoughts = _THOUGHTS.get(request.reasoning_effort or "", 0)
        least = min(self._settings.min_reply_tokens + thoughts, longest)
        if not any(budget.usd is not None for _, budget in budgets):
            return ReplyCost(prompt, least)
        prompt_usd = self._worst_usd(request, prompt, 0, budgets)
        return ReplyCost(prompt, least, prompt_usd, self._worst_usd(request, 0, 1, budgets))

    def _is_paused(self, reservation: Reservation) -> bool:
        # Without a max wait, a call waits only for a pause that a person ordered.
        heeds = reservation.max_wait_s > 0 or reservation.next_model
        return any(
            name in self._rules.paused or (heeds and name in self._notices.pauses)
            for name in reservation.names
        )

    def close(
        self, permit: Permit, used: Used, failure: ProviderFailure | None = None
    ) -> Delay | None:
        """Release what a permit holds; return the delay if its call is to be made again."""
        with self._lock:
            self._open.discard(permit)
        delay, woken = self._allotments.release(permit.grant, used, failure)
        self._wake(woken)
        return delay

    # ---- background

    def start(self) -> None:
        """Start the thread that reads changes and renews what calls hold."""
        self.refresh()
        self._allotments.are_used = True
        repeat(self._keep_up, _REFRESH_S, "limits")

    def refresh(self) -> None:
        """Read changed limits and pauses."""
        notices = self._limiter.notices()
        if notices.changes != self._notices.changes:
            self._rules = Rules(self._settings, notices.changes)
        self._notices = notices

    def renew(self) -> None:
        """Renew what the calls under way hold."""
        with self._lock:
            held = [permit.grant for permit in self._open]
        self._allotments.renew(held)

    def end(self) -> None:
        """Tell Redis what calls have used that this process has admitted by itself."""
        self._allotments.end()

    def _keep_up(self) -> None:
        try:
            self.refresh()
            self._allotments.settle()
            if monotonic() >= self._renew_at:
                self.renew()
                self._renew_at = monotonic() + LEASE_S / _RENEWALS_PER_LEASE
        except RedisError as error:
            logger.warning("cannot read the limits: %s", error)
