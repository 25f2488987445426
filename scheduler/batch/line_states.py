"""The states of a batch's lines, in the ledger and in the progress at the same time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from sleipnir.scheduler.batch.finished import FinishedLine, read_runs
from sleipnir.scheduler.batch.ledger import Item, Ledger
from sleipnir.scheduler.batch.options import Progress
from sleipnir.scheduler.batch.reported import Reported, outcome_of
from sleipnir.scheduler.runs.model import Run
from sleipnir.scheduler.store.queries import RunQueries


class LineStates:
    """Moves lines from one state to another."""

    def __init__(
        self,
        ledger: Ledger,
        progress: Progress,
        records: RunQueries,
        on_end: Callable[[Run], None],
        *,
        ordered: bool,
    ) -> None:
        self._ledger = ledger
        self._progress = progress
        self._records = records
        self._on_end = on_end
        self._ordered = ordered

    def start(self, item: Item, run_id: str) -> None:
        """Follow a run that was submitted or retried just now."""
        self._ledger.forget_reasons(item.item)
        self.follow(item, run_id, waits=False)

    def follow(self, item: Item, run_id: str, *, waits: bool) -> None:
        """Follow a run that has not ended.

        Args:
            waits: for a person.
        """
        self._ledger.mark(item.number, "waiting" if waits else "open", run_id)
        if waits:
            self._progress.waiting += 1
        else:
            self._progress.in_flight += 1

    def move(self, item: Item, *, waits: bool) -> None:
        """Note whether a followed run waits for a person."""
        if waits != (item.state == "waiting") and item.run_id is not None:
            self._uncount(item)
            self.follow(item, item.run_id, waits=waits)

    def drop(self, item: Item) -> None:
        """Follow a line's run no longer: Redis has lost it."""
        self._uncount(item)
        self._ledger.mark(item.number, "todo", None)

    def keep(self, item: Item) -> None:
        """Leave a line's result as an earlier start has reported it."""
        assert item.reported is not None
        self._ledger.mark(item.number, "reported", item.reported.run_id)
        self._progress.count(item.reported)
        self._progress.earlier += 1

    def finish(self, items: Sequence[Item]) -> Iterator[FinishedLine]:
        """Record the ends of runs, and yield them unless they were reported before."""
        for finished in read_runs(self._records, items):
            item, run = finished.item, finished.run
            if not run.is_final or _is_reported(item, run):
                continue
            self._uncount(item)
            outcome = outcome_of(run.status, run.failed_nodes)
            reported = Reported(run.run_id, run.tries, outcome, run.usage)
            self._ledger.report(item.number, "over" if self._ordered else "reported", reported)
            self._progress.count(reported)
            self._on_end(run)
            yield finished

    def _uncount(self, item: Item) -> None:
        if item.state == "open":
            self._progress.in_flight -= 1
        elif item.state == "waiting":
            self._progress.waiting -= 1
        elif item.reported is not None and item.state in ("over", "reported"):
            self._progress.count(item.reported, -1)


def _is_reported(item: Item, run: Run) -> bool:
    """Return whether this try of a run was reported."""
    said = item.reported
    return (
        said is not None
        and item.state in ("over", "reported")
        and (said.run_id, said.tries) == (run.run_id, run.tries)
    )
