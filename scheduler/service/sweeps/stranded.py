"""Open runs that nothing would ever look at again: mended where they can go on, else failed."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import timedelta
from time import monotonic
from typing import TYPE_CHECKING

from sleipnir.lazy import lazy_imports, made_when_used
from sleipnir.records import dataclass
from sleipnir.scheduler.runs.model import Failure
from sleipnir.scheduler.store.keys import partition_of
from sleipnir.scheduler.store.run_store import RunStore

# A command's engine may be over before the first look.
with lazy_imports():
    from sleipnir.scheduler.runs import snapshot, stranded
    from sleipnir.scheduler.store import inspection

if TYPE_CHECKING:
    from sleipnir.scheduler.runs.snapshot import RunSnapshot
    from sleipnir.scheduler.runs.stranded import Defect

logger = logging.getLogger("sleipnir.scheduler")

# Of one partition, each time: what is kept is passed over quickly, what is open is read.
_PASSED_OVER = 200
_READ = 40
# So many runs are held in suspicion at most; others are found again later.
_SUSPECTS = 1_000


@dataclass(frozen=True, slots=True)
class _Suspect:
    """A run that looked stranded."""

    defects: tuple[Defect, ...]
    since_s: float


class StrandedSweep:
    """Goes round all runs, a few at a time, and looks again at those that looked stranded.

    Transitions are atomic, so what one reading shows is true; that it is still so after a while
    makes sure that nobody was about to do something about it.

    Args:
        monotonic: another clock for tests that move that of Redis.
        interval: between two partitions; a round takes 64 of them, and more where runs are many.
        apart: how long a run must have looked stranded before anything is done.
    """

    def __init__(
        self,
        store: RunStore,
        monotonic: Callable[[], float] = monotonic,
        interval: timedelta = timedelta(seconds=1),
        apart: timedelta = timedelta(minutes=1),
    ) -> None:
        self._store = store
        self._inspector = made_when_used(lambda: inspection.Inspector(store.client, whole=False))
        self._monotonic = monotonic
        self._interval_s = interval.total_seconds()
        self._apart_s = apart.total_seconds()
        self._last_s = monotonic()
        self._turn = 0  # of the partitions
        self._position = 0  # in that partition
        self._suspects: dict[str, _Suspect] = {}

    def run_if_due(self, partitions: Sequence[str]) -> None:
        """Look at a few more runs of the partitions that are ours, if the interval has passed."""
        if partitions and self._monotonic() - self._last_s >= self._interval_s:
            self._last_s = self._monotonic()
            self.run_once(partitions)

    def run_once(self, partitions: Sequence[str]) -> int:
        """Look at the next few runs, and again at suspects; returns how many were dealt with."""
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
        # One by one: to mend a parent changes what its child's reading says of it.
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
                    logger.error("run %s %s", run.run_id, run.text)
                else:
                    yield run

    def _suspect(self, run: RunSnapshot, now_s: float) -> None:
        found = tuple(stranded.defects(run))
        if found and len(self._suspects) < _SUSPECTS:
            self._suspects[run.run_id] = _Suspect(found, now_s)

    def _judge(self, run: RunSnapshot, now_s: float) -> bool:
        """Act on what a run still lacks; False if there is nothing to do, or not yet."""
        before = self._suspects.pop(run.run_id)
        lasting = [defect for defect in stranded.defects(run) if defect in before.defects]
        if not lasting:
            self._suspect(run, now_s)
            return False
        hopeless = next((defect for defect in lasting if defect.repair is None), None)
        failure = None
        if hopeless is not None:
            message = f"the run could not continue: {hopeless.text}"
            failure = Failure("R023", message, None)
        repairs = [defect.repair for defect in lasting if defect.repair is not None]
        if not self._store.runs.repair(run.run_id, run.digest, failure, repairs):
            self._suspects[run.run_id] = before
            return False
        logger.warning(
            "run %s was stranded, and %s: %s",
            run.run_id,
            "failed" if failure else "was made to go on" if not run.is_final else "cleaned up",
            "; ".join(defect.text for defect in lasting),
        )
        return True
