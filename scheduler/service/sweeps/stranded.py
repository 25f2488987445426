"""Recovery of stranded runs, which no timer would ever wake: repaired if possible, else failed."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import timedelta
from time import monotonic
from typing import TYPE_CHECKING

from sleipnir.lazy import lazy_imports, lazy_object
from sleipnir.records import dataclass
from sleipnir.scheduler.runs.ids import partition_of
from sleipnir.scheduler.runs.model import Failure
from sleipnir.scheduler.store.run_store import RunStore

# A command's embedded engine may stop before the first sweep.
with lazy_imports():
    from sleipnir.scheduler.runs import snapshot
    from sleipnir.scheduler.runs.consistency import rules
    from sleipnir.scheduler.store import inspection

if TYPE_CHECKING:
    from sleipnir.scheduler.runs.consistency.rules import Violation
    from sleipnir.scheduler.runs.snapshot import RunSnapshot

logger = logging.getLogger("sleipnir.scheduler")

# Per partition and sweep: stored runs to skip through, and open runs to read.
_PASSED_OVER = 200
_READ = 40
# The most suspects remembered; others are found again later.
_SUSPECTS = 1_000


@dataclass(frozen=True, slots=True)
class _Suspect:
    """A run that looked stranded in one reading."""

    violations: tuple[Violation, ...]
    since_s: float


class StrandedSweep:
    """Checks all runs in turn, a few at a time, and acts on those that look stranded twice.

    Transitions are atomic, so one reading is consistent; the second one, after a while, makes sure
    that nobody was about to act.

    Args:
        monotonic: a clock for tests that also move the one of Redis.
        apart: how long a run must have looked stranded before it is repaired.
    """

    def __init__(
        self,
        store: RunStore,
        monotonic: Callable[[], float] = monotonic,
        apart: timedelta = timedelta(minutes=1),
    ) -> None:
        self._store = store
        self._inspector = lazy_object(lambda: inspection.Inspector(store.client, whole=False))
        self._monotonic = monotonic
        self._apart_s = apart.total_seconds()
        self._turn = 0  # index of the partition
        self._position = 0  # position in that partition
        self._suspects: dict[str, _Suspect] = {}

    def run_once(self, partitions: Sequence[str]) -> int:
        """Check the next few runs of the owned partitions, and suspects again.

        Returns:
            how many were repaired or failed.
        """
        partition = partitions[self._turn % len(partitions)]
        self._position, found = self._store.partitions.find_unfinished(
            partition, self._position, _PASSED_OVER, _READ
        )
        if not self._position:
            self._turn += 1
        now_s = self._monotonic()
        due = [
            run_id
            for run_id, suspect in self._suspects.items()
            if now_s - suspect.since_s >= self._apart_s and partition_of(run_id) in partitions
        ][:_READ]
        # One by one: repairing a parent changes the reading of its child.
        dealt_with = sum(self._judge(run, now_s) for each in due for run in self._read([each]))
        new = [run_id for run_id in found if run_id not in self._suspects]
        for run in self._read(new):
            self._suspect(run, now_s)
        return dealt_with

    def _read(self, run_ids: Iterable[str]) -> Iterator[RunSnapshot]:
        by_partition: dict[str, list[str]] = {}
        for run_id in run_ids:
            by_partition.setdefault(partition_of(run_id), []).append(run_id)
        for partition, ids in by_partition.items():
            for run in self._inspector.look(partition, dict.fromkeys(ids, ())):
                if isinstance(run, snapshot.Unreadable):
                    self._suspects.pop(run.run_id, None)
                    logger.error("run %s %s", run.run_id, run.text, extra={"run_id": run.run_id})
                else:
                    yield run

    def _suspect(self, run: RunSnapshot, now_s: float) -> None:
        found = tuple(rules.repairable(run))
        if found and len(self._suspects) < _SUSPECTS:
            self._suspects[run.run_id] = _Suspect(found, now_s)

    def _judge(self, run: RunSnapshot, now_s: float) -> bool:
        """Repair what is still broken in a run; return False if there is nothing to do yet."""
        before = self._suspects.pop(run.run_id)
        lasting = [each for each in rules.repairable(run) if each in before.violations]
        if not lasting:
            self._suspect(run, now_s)
            return False
        hopeless = next((each for each in lasting if each.repair == "fail"), None)
        failure = None
        if hopeless is not None:
            message = f"the run could not continue: {hopeless.text}"
            failure = Failure("R023", message, None)
        if not self._store.runs.repair(run.run_id, run.digest, rules.chosen(lasting), failure):
            self._suspect(run, now_s)
            return False
        logger.warning(
            "run %s was stranded; %s: %s",
            run.run_id,
            "failed" if failure else "repaired",
            "; ".join(each.text for each in lasting),
            extra={"run_id": run.run_id, "code": failure.code if failure else None},
        )
        return True
