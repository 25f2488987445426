"""Finished lines of a batch with their runs, in input order if wanted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import takewhile
from types import MappingProxyType
from typing import Any, NamedTuple

from sleipnir.scheduler.batch.ledger import Item, Ledger
from sleipnir.scheduler.runs.failures import NodeFailure
from sleipnir.scheduler.runs.model import Run
from sleipnir.scheduler.store.queries import RunQueries


class FinishedLine(NamedTuple):
    """A line whose run has ended."""

    item: Item
    run: Run
    failures: Sequence[NodeFailure] = ()  # node failures that did not end the run
    more: Mapping[str, Any] = MappingProxyType({})  # requested additional fields of the result


# Runs are read with their outputs, which may be large.
_READ_AT_ONCE = 50


def read_runs(records: RunQueries, items: Sequence[Item]) -> Iterator[FinishedLine]:
    """Yield the runs of lines; runs that Redis has lost are left out."""
    for start in range(0, len(items), _READ_AT_ONCE):
        some = items[start : start + _READ_AT_ONCE]
        runs = records.runs([item.run_id or "" for item in some])
        for item, run in zip(some, runs, strict=True):
            if run is not None:
                yield FinishedLine(item, run, records.failures(run))


class InInputOrder:
    """Reports ended lines in input order: none before all lines in front of it."""

    def __init__(self, ledger: Ledger, records: RunQueries) -> None:
        self._ledger = ledger
        self._records = records
        self._reported = 0  # number of the last reported line

    def ready(self) -> Iterator[FinishedLine]:
        """Yield the ended lines in front of which no line is unfinished."""
        while True:
            page = self._ledger.following(self._reported, _READ_AT_ONCE)
            settled = list(takewhile(lambda item: item.state in ("over", "reported"), page))
            if not settled:
                return
            self._reported = settled[-1].number
            yield from self._report(settled)

    def leftovers(self) -> Iterator[FinishedLine]:
        """Yield the ended lines behind those that will not finish now."""
        last = 0  # some may have been reported, and retried since
        while page := self._ledger.page("over", last, _READ_AT_ONCE):
            last = page[-1].number
            yield from self._report(page)

    def _report(self, items: Sequence[Item]) -> Iterator[FinishedLine]:
        over = [item for item in items if item.state == "over"]
        for finished in read_runs(self._records, over):
            if not finished.run.is_final:  # retried meanwhile
                continue
            self._ledger.mark(finished.item.number, "reported", finished.run.run_id)
            yield finished


class UnseenKeys:
    """Finds requested state keys that no run has, which are probably misspelt."""

    def __init__(self, keys: Iterable[str]) -> None:
        self._keys = dict.fromkeys(keys)
        self._any_succeeded = False

    def note(self, finished: FinishedLine) -> None:
        """Look at the state in a result; failed runs prove nothing."""
        if finished.run.status != "succeeded":
            return
        self._any_succeeded = True
        for key, value in finished.more.get("state", {}).items():
            if value is not None:
                self._keys.pop(key, None)

    def found(self) -> list[str]:
        """Return the keys that no successful run had; none before a run succeeded."""
        return list(self._keys) if self._any_succeeded else []
