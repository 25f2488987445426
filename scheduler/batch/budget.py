"""The budget of a batch: how many of its lines may run, given what is spent of it."""

from __future__ import annotations

from collections.abc import Sequence
from time import monotonic

from sleipnir.lazy import lazy_imports
from sleipnir.scheduler.batch.options import BatchOptions, Progress
from sleipnir.scheduler.limits.records import Used
from sleipnir.scheduler.limits.rules import batch_budget
from sleipnir.scheduler.runs.failures import is_of_budget
from sleipnir.scheduler.runs.model import Run
from sleipnir.scheduler.store.queries import RunQueries
from sleipnir.scheduler.store.rate_limiter import RateLimiter
from sleipnir.scheduler.store.run_store import RunStore

# Few budgets are ever used up.
with lazy_imports():
    from sleipnir.scheduler.store.hooks import used_up

_READ_EVERY_S = 0.5
# Until so many lines have finished, their mean cost is a guess, and few run at once.
_FEW_FINISHED = 10
_FEW_AT_ONCE = 8


class BatchBudget:
    """Decides whether another line may be started; calls reserve what they may cost themselves."""

    def __init__(
        self, store: RunStore, limiter: RateLimiter, queries: RunQueries, options: BatchOptions
    ) -> None:
        self._store = store
        self._limiter = limiter
        self._queries = queries
        self._batch = options.name
        self._usd = options.budget_usd
        # False: all lines are started at once. A few at a time would make many small batches of
        # providers; calls still reserve.
        self.paces = self._usd is not None and options.defaults.economy_s is None
        self._has_refused = False
        self._spent = 0.0
        self._known_usd = 0.0  # of the lines that had finished when that was read
        self._read_at = float("-inf")

    def begin(self) -> None:
        """Have the budget apply to all runs of the batch, those of earlier starts included."""
        if self._usd is None:
            self._limiter.lift_batch_budget(self._batch)
            return
        (row,) = self._queries.batch_rows([self._batch])
        used = 0.0 if row is None else row.cost_usd or 0.0
        self._spent = self._limiter.begin_batch_budget(self._batch, self._usd, Used(usd=used))

    def stopped(self, run_ids: Sequence[str]) -> set[str]:
        """Return those of the runs that a budget has failed, if they may go on by now."""
        if self._usd is None or self._spent >= self._usd:
            return set()
        found = zip(run_ids, self._queries.errors(run_ids), strict=True)
        return {run_id for run_id, why in found if why and is_of_budget(why.code, why.message)}

    def note_end(self, run: Run) -> None:
        """Start no further line once the budget has refused a call: it would refuse others too."""
        failure = run.failure
        if self._usd is not None and failure and is_of_budget(failure.code, failure.message):
            self._has_refused |= f"'batch:{self._batch}'" in failure.message

    def tell_used_up(self) -> None:
        """Record for hooks that lines are left for which it has no room."""
        if self._usd is not None:
            owner = f"batch:{self._batch}"
            record = self._limiter.queries.budget_record(owner)
            used_up.tell_used_up(self._store, owner, batch_budget(self._usd), record)

    def has_room(self, progress: Progress) -> bool:
        """Return whether it has room for another line, given what finished ones cost."""
        if self._usd is None or not self.paces:
            return True
        if self._has_refused:
            return False
        if progress.finished < _FEW_FINISHED and progress.in_flight >= _FEW_AT_ONCE:
            return False
        if monotonic() > self._read_at or not progress.in_flight:
            self._read_at = monotonic() + _READ_EVERY_S
            self._spent, _ = self._limiter.queries.spent(f"batch:{self._batch}")
            self._known_usd = progress.spent.known_usd
        mean = progress.spent.known_usd / progress.finished if progress.finished else 0.0
        # Lines that have finished since then run no more, but have been paid for.
        spent = self._spent + progress.spent.known_usd - self._known_usd
        return spent < self._usd and spent + (progress.in_flight + 1) * mean <= self._usd
