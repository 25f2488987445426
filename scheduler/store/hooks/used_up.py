"""Budgets that are used up: whoever is refused by one tells hooks, once."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Mapping
from typing import Any

from sleipnir.scheduler.errors import TransitionBroken
from sleipnir.scheduler.limits.money import NANO
from sleipnir.scheduler.limits.rules import Budget
from sleipnir.scheduler.runs.ids import digits_of_batch, partition_of
from sleipnir.scheduler.store.keys import batch_key
from sleipnir.scheduler.store.queries import RunQueries
from sleipnir.scheduler.store.rate_limiter import RateLimiter
from sleipnir.scheduler.store.run_store import RunStore

logger = logging.getLogger(__name__)


def tell_used_up(store: RunStore, owner: str, budget: Budget, spent: Mapping[str, Any]) -> None:
    """Record for hooks that a budget is used up, unless they know.

    Safe to repeat: a budget that was raised, or granted again, is another one. It is told before
    the refusal has any effect, so that it is not lost with who was refused.

    Args:
        owner: `day`, `run:ID` or `batch:NAME`.
        spent: the budget's record, as the rate limiter has it.
    """
    limiter = RateLimiter(store.client, store.clock, kept_s=store.settings.retention_s)
    usd, tokens = _limits(budget, spent)
    told = f"{usd} {tokens}"
    if spent.get("told") == told:
        return
    seed = f"budget.used_up {limiter.queries.budget_id(owner)} {told}"
    subject = {
        "budget": owner,
        "limit_usd": usd,
        "limit_tokens": tokens,
        "spent_usd": spent["cost"] / NANO,
        "spent_tokens": spent["tokens"],
        "on_excess": budget.on_excess,
    }
    facts, url = _facts(store, owner)
    try:
        store.hooks.record(
            _partition(owner),
            "budget.used_up",
            f"evt_{hashlib.sha256(seed.encode()).hexdigest()[:32]}",
            subject,
            facts=facts,
            url=url,
        )
    except TransitionBroken as error:  # what was refused has to know of that all the same
        logger.warning("cannot tell hooks that budget '%s' is used up: %s", owner, error)
        return
    limiter.note_told(owner, told)


def _limits(budget: Budget, spent: Mapping[str, Any]) -> tuple[float | None, int | None]:
    """Return how much may be spent by now, with what was granted again."""
    times = 1 + int(spent.get("granted") or 0)
    own = spent.get("limit") if budget.is_own else None
    usd = own / NANO if own else budget.usd
    return (
        None if usd is None else usd * times,
        None if budget.tokens is None else budget.tokens * times,
    )


def _partition(owner: str) -> str:
    scope, _, name = owner.partition(":")
    return partition_of(name if scope == "run" else digits_of_batch(owner))


def _facts(store: RunStore, owner: str) -> tuple[dict[str, Any], str | None]:
    """Return what filters of hooks look at, and the URL of the run's or batch's own."""
    scope, _, name = owner.partition(":")
    redis: Any = store.client  # redis-py types every answer as a union of its sync and async forms
    if scope == "batch":
        agent = redis.hget(batch_key(name), "agent")
        return {"batch": name, "agent": agent}, store.batches.webhook(name)
    (run,) = RunQueries(store.client, store.clock).runs([name]) if scope == "run" else (None,)
    if run is None:
        return {}, None
    facts = {"agent": run.agent, "batch": run.batch, "labels": dict(run.labels)}
    return facts, run.webhook
