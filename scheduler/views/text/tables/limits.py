"""The tables of limits, pauses and budgets."""

from __future__ import annotations

from collections.abc import Iterator

from sleipnir.scheduler.client.limits.report import BudgetLine, LimitLine, Report
from sleipnir.scheduler.limits import money, rules
from sleipnir.scheduler.views.text import formatting

_LIMITS = ("LIMIT", "SETTING", "VALUE", "FROM", "IN USE", "WAITING", "")
_PAUSES = ("PAUSED", "UNTIL", "WAITING", "WHY")
_BUDGETS = ("BUDGET", "LIMIT", "FROM", "SPENT", "RESERVED", "LEFT", "ON EXCESS", "WAITING")


def lines_of(found: Report, *, fit: bool = True) -> Iterator[str]:
    """Yield the lines of the tables; none if there are no limits."""
    pauses = [
        (
            pause.name,
            pause.until or "resumed",
            str(pause.waiting),
            formatting.first_line(pause.reason),
        )
        for pause in found.pauses
    ]
    parts: tuple[tuple[tuple[str, ...], list[tuple[str, ...]]], ...] = (
        (_LIMITS, [_limit(limit) for limit in found.limits]),
        (_PAUSES, [*pauses]),
        (_BUDGETS, [_budget(budget) for budget in found.budgets]),
    )
    for number, (head, rows) in enumerate(part for part in parts if part[1]):
        yield from ("",) * bool(number)
        yield from formatting.columns(head, rows, fit=fit)


def _limit(limit: LimitLine) -> tuple[str, ...]:
    lowered = f"reduced to {limit.share:.0%} after refusals" if limit.share < 1 else ""
    return (
        limit.name,
        limit.setting,
        f"{limit.value:,}",
        limit.origin,
        f"{limit.in_use:,}",
        str(limit.waiting),
        lowered,
    )


def _budget(budget: BudgetLine) -> tuple[str, ...]:
    def amounts(usd: float | None, tokens: int | None) -> str:
        parts: list[str] = []
        if usd is not None and budget.usd is not None:
            parts.append(money.dollars(usd))
        if tokens is not None and budget.tokens is not None:
            parts.append(f"{tokens:,} tokens")
        return ", ".join(parts)

    if budget.name in rules.OWNED_SCOPES:  # per owner; this one has used nothing
        limit = amounts(budget.usd, budget.tokens)
        return (f"each {budget.name}", limit, budget.origin, "", "", "", budget.on_excess, "")
    return (
        budget.name,
        amounts(budget.usd, budget.tokens),
        budget.origin,
        amounts(budget.spent_usd, budget.spent_tokens),
        amounts(budget.reserved_usd, budget.reserved_tokens),
        amounts(budget.left_usd, budget.left_tokens),
        budget.on_excess,
        str(budget.waiting),
    )
