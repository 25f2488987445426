"""Archives runs some time after their end, on a thread that sweeps never wait for."""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from datetime import timedelta
from functools import partial
from multiprocessing.pool import ThreadPool
from typing import TYPE_CHECKING, Final

from sleipnir.scheduler.runs.ids import ALL_PARTITIONS
from sleipnir.scheduler.service.archiving.retention import remove_old
from sleipnir.scheduler.service.archiving.trees import Round, Trees
from sleipnir.scheduler.service.sweeps.periodic import Periodic
from sleipnir.scheduler.store.archive.figures import ArchiveCounts
from sleipnir.scheduler.store.errors import RedisError
from sleipnir.scheduler.store.run_store import RunStore

if TYPE_CHECKING:
    from sleipnir.scheduler.store.archive.archive import Archive

logger = logging.getLogger("sleipnir.scheduler")

# Runs under way at once: an archive may take a tenth of a second for each.
THREADS: Final = 16
_AT_ONCE: Final = 64
_RETENTION: Final = timedelta(hours=1)
_ADOPTED: Final = 500  # runs that are looked at in one go
_LOOK_S: Final = 1.0
_POSTPONED_S: Final = 60.0
_LONGEST_PAUSE_S: Final = 60.0


class Archiver:
    """Archives what is due in the partitions of a scheduler."""

    def __init__(self, store: RunStore, archive: Archive) -> None:
        self._store = store
        self._archive = archive
        self._counts = ArchiveCounts(store.client, store.clock)
        self._partitions: Sequence[str] = ()
        self._looked_at: dict[str, int | None] = {}  # by partition: a position; None: all of it
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="archiver", daemon=True)

    def start(self) -> None:
        """Begin to archive, in the partitions that `own` tells."""
        self._thread.start()

    def stop(self) -> None:
        """Begin no more rounds, and wait for the one under way."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(_LOOK_S)

    def adopt(self, partitions: Sequence[str]) -> bool:
        """Look at some more runs that ended without an archive; return False once all are known.

        Each process does that once for each partition: the setting may be new.
        """
        for partition in partitions:
            first = self._looked_at.get(partition, 0)
            if first is not None:
                following = self._store.whole_runs.adopt(partition, first, _ADOPTED)
                self._looked_at[partition] = following or None
                return True
        return False

    def own(self, partitions: Sequence[str]) -> None:
        """Archive in these partitions from now on."""
        self._partitions = partitions

    def _run(self) -> None:
        failures, is_adopting = 0, False
        retention = Periodic(_RETENTION, partial(remove_old, self._store, self._archive))
        while not self._stopping.is_set():
            try:
                is_adopting = self.adopt(self._partitions)
                done = self.run_once(self._partitions)
                if ALL_PARTITIONS[0] in self._partitions:  # one scheduler does it for all
                    retention.run_if_due()
            except RedisError as error:
                logger.warning("cannot archive: %s", error)
                done = Round(failed=1)
            except Exception:
                logger.exception("cannot archive")
                done = Round(failed=1)
            failures = failures + 1 if done.failed and not done.archived else 0
            if failures:
                self._stopping.wait(min(_LONGEST_PAUSE_S, 2.0**failures))
            elif not done.archived and not is_adopting:
                self._stopping.wait(_LOOK_S)

    def run_once(self, partitions: Sequence[str]) -> Round:
        """Archive some of the runs that are due, with their children; those that fail later."""
        runs = self._store.whole_runs
        due = runs.due(partitions, _AT_ONCE)
        done = Round()
        if not due:
            return done
        # Its threads are daemons: the end of the process never waits for an archive that hangs.
        with ThreadPool(THREADS) as threads:
            left = _stored(Trees(self._store, self._archive, threads, done), due)
        if left:
            runs.postpone(sorted(left), _POSTPONED_S)
        self._counts.note(done.archived, done.stored_bytes, done.failed, done.reason)
        if done.failed:
            logger.error("%d runs could not be archived: %s", done.failed, done.reason)
        return done


def _stored(trees: Trees, run_ids: Sequence[str]) -> set[str]:
    """Archive runs, and return those that are still to be archived.

    One with which something unexpected is wrong must not hold up the others.
    """
    try:
        return trees.store(run_ids)
    except RedisError:
        raise
    except Exception as error:
        if len(run_ids) > 1:
            return set[str]().union(*(_stored(trees, [run_id]) for run_id in run_ids))
        logger.exception("cannot archive run %s", run_ids[0], extra={"run_id": run_ids[0]})
        trees.note_failure(f"run {run_ids[0]}: {type(error).__name__}: {error}")
        return {*run_ids}
