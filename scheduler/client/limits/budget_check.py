"""Budgets that refuse submissions once they are used up: `on_excess: stop`."""

from __future__ import annotations

from time import monotonic

from sleipnir.lazy import lazy_imports
from sleipnir.scheduler.client.limits.commands import LimitCommands
from sleipnir.scheduler.errors import BudgetUsedUp
from sleipnir.scheduler.limits.records import owner_of
from sleipnir.scheduler.limits.rules import Budget
from sleipnir.scheduler.store.run_store import RunStore

# Few budgets are ever used up.
with lazy_imports():
    from sleipnir.scheduler.store.hooks import used_up

# A batch submits hundreds of runs within this time.
_REMEMBERED_S = 1.0


class BudgetCheck:
    """Checks before each submission whether any budget is left."""

    def __init__(self, store: RunStore) -> None:
        self._store = store
        self._commands = LimitCommands(store)
        self._budgets: tuple[Budget, ...] = ()
        self._looked_at = float("-inf")
        self._used_up: dict[str, bool] = {}

    def require_budget(self, batch: str | None) -> None:
        """Check that a run of a batch, or of none, may be submitted.

        Raises:
            BudgetUsedUp: a budget is used up.
        """
        if monotonic() - self._looked_at > _REMEMBERED_S:
            budgets = self._commands.rules().budgets
            self._budgets = tuple(budget for budget in budgets if budget.on_excess == "stop")
            self._used_up.clear()
            self._looked_at = monotonic()
        for budget in self._budgets:
            owner = owner_of(budget.scope, "", batch)
            if owner is None:
                continue
            if owner not in self._used_up:
                self._used_up[owner] = budget.is_used_up(*self._commands.spent(owner))
                if self._used_up[owner]:
                    record = self._commands.limiter.queries.budget_record(owner)
                    used_up.tell_used_up(self._store, owner, budget, record)
            if self._used_up[owner]:
                raise BudgetUsedUp(owner, budget.scope)
