"""Messages about limits: why a call waits, how much of a budget is used."""

from __future__ import annotations

import json

from sleipnir.scheduler.limits.money import dollars
from sleipnir.scheduler.limits.records import Delay, Reservation
from sleipnir.scheduler.limits.rules import Budget, Rules

_RATES = {
    "requests": ("requests_per_minute", "requests per minute"),
    "tokens": ("tokens_per_minute", "tokens per minute"),
    "concurrency": ("concurrency", "concurrent calls"),
}


def reason(delay: Delay, reservation: Reservation | None = None, rules: Rules | None = None) -> str:
    """Return why a call waits, in one line."""
    name, detail = delay.name, delay.detail
    match delay.why:
        case "pause":
            return f"{name} is paused: {detail}"
        case "command":
            return _paused_by_command(name, detail)
        case "budget":
            # The remedy comes first: narration lines are cut.
            most = (
                f", and this call may take up to {reservation.worst_tokens} tokens"
                if reservation
                else ""
            )
            return (
                f"its budget is used up; resume with {resume_command(name)}, or raise it "
                f"(spent: {_spent(detail)}{most})"
            )
        case "held":
            return f"the rest of budget '{name}' is reserved by calls in progress"
        case "booked":
            return f"it is queued for {name}"
        case rate:
            setting, words = _RATES[rate]
            limit = getattr(rules.limit(name), setting) if rules is not None else None
            return f"{name} is limited to {limit} {words}"


_OF_ONE_RUN = ", or continue this run with more: sleipnir retry RUN --budget USD"


def budget_excess(name: str, budget: Budget, spent: str, reservation: Reservation) -> str:
    """Return why a budget refuses a call; `spent` is the limiter's text."""
    limits = []
    if budget.usd is not None:
        limits.append(dollars(budget.usd))
    if budget.tokens is not None:
        limits.append(f"{budget.tokens} tokens")
    most = f"{dollars(reservation.worst_usd)} and " if budget.usd is not None else ""
    raising = f"sleipnir limits --set {budget.scope}.usd=… (or .tokens=…)"
    if budget.is_own:
        raising = "batch --budget"
    return (
        f"budget '{name}' does not allow this model call: its limit is {' and '.join(limits)}, "
        f"spent: {_spent(spent)}, and it may take up to {most}{reservation.worst_tokens} "
        f"tokens; raise it with: {raising}" + (_OF_ONE_RUN if budget.scope == "run" else "")
    )


def pause_of(model: str, rules: Rules) -> str | None:
    """Return why a person has stopped a model's calls, in one line; None: nobody has."""
    name = rules.paused_for(model)
    return None if name is None else _paused_by_command(name, rules.paused[name])


def _paused_by_command(name: str, why: str) -> str:
    return f"{name} is paused manually ({why}); resume with {resume_command(name)}"


def resume_command(name: str) -> str:
    """Return the command that lets calls continue."""
    return f"sleipnir limits --resume {name}"


def _spent(detail: str) -> str:
    spent = json.loads(detail)
    return f"{dollars(spent['cost'] / 1e9)} and {spent['tokens']} tokens"
