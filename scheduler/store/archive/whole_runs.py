"""Transitions of whole runs that have ended."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from sleipnir.lazy import lazy_imports
from sleipnir.scheduler.runs.ids import partition_of
from sleipnir.scheduler.runs.model import FINAL
from sleipnir.scheduler.store.keys import archivable_key, run_key
from sleipnir.scheduler.store.record import flat
from sleipnir.scheduler.store.transitions import Transitions

# Most processes neither export nor archive.
with lazy_imports():
    from sleipnir.scheduler.store.archive import reading, summary

if TYPE_CHECKING:
    from sleipnir.scheduler.runs.whole.parts import WholeRun
    from sleipnir.scheduler.store.archive.reading import ReadRun
    from sleipnir.scheduler.store.archive.summary import ObjectPlace

# Fields of a record that tell how much is stored of its run.
_SIZES: Final = (
    *("bytes", "history_bytes", "logs_bytes", "transcripts_bytes"),
    *("failed_transcripts_bytes", "superseded_bytes"),
)
# A run that was brought back stays for so long at least, whatever `archive_after_s` is.
_RESTORED_S: Final = 600.0


class WholeRuns:
    """Runs with everything that is stored of them."""

    def __init__(self, store: Transitions) -> None:
        self._store = store

    def read(self, run_ids: Sequence[str]) -> list[ReadRun | None]:
        """Return runs that have ended, in two round trips; None for those that are not there."""
        return reading.read_whole(self._store.client, run_ids)

    def known(self, run_ids: Sequence[str]) -> set[str]:
        """Return those of the ids that runs here have."""
        with self._store.client.pipeline(transaction=False) as pipe:
            for run_id in run_ids:
                pipe.exists(run_key("run", run_id))
            answers = pipe.execute()
        return {run_id for run_id, is_here in zip(run_ids, answers, strict=True) if is_here}

    def put(self, run: WholeRun, kept_s: float) -> bool:
        """Store a run that ended elsewhere as one of this engine; return False if its id is taken.

        Args:
            kept_s: in how long it is removed.
        """
        fields = flat(run.record)
        answer = self._store.call(
            "import_run",
            run.run_id,
            int(1000 * kept_s),
            len(fields) // 2,
            *fields,
            *reading.words_of(run),
        )
        return bool(answer.created)

    # ---- archived runs

    def due(self, partitions: Sequence[str], limit: int) -> list[str]:
        """Return root runs that are to be archived now, those that have waited longest first."""
        now_ms = self._store.clock.now_ms()
        with self._store.client.pipeline(transaction=False) as pipe:
            for partition in partitions:
                pipe.zrangebyscore(
                    archivable_key(partition), "-inf", now_ms, 0, limit, withscores=True
                )
            found = [entry for entries in pipe.execute() for entry in entries]
        return [run_id for run_id, _ in sorted(found, key=lambda entry: entry[1])[:limit]]

    def adopt(self, partition: str, first: int, count: int) -> int:
        """Note runs that are to be archived, if they ended before there was an archive.

        Args:
            first: the position among the partition's runs to begin at.
            count: how many runs to examine.

        Returns:
            the position to continue at, 0 after the last run.
        """
        redis: Any = self._store.client  # redis-py types every answer as sync or async
        run_ids = redis.zrange(f"{partition}:runs", first, first + count - 1)
        with redis.pipeline(transaction=False) as pipe:
            for run_id in run_ids:
                pipe.hmget(run_key("run", run_id), "status", "archived", "ended")
            records = zip(run_ids, pipe.execute(), strict=True)
        after_ms = int(1000 * self._store.settings.archive_after_s)
        due = {
            run_id: int(ended) + after_ms
            for run_id, (status, archived, ended) in records
            if status in FINAL and archived is None
        }
        if due:
            redis.zadd(archivable_key(partition), due, nx=True)
        return first + count if len(run_ids) == count else 0

    def sizes(self, run_ids: Sequence[str]) -> dict[str, int]:
        """Return about how many bytes are stored of those runs that can be archived."""
        with self._store.client.pipeline(transaction=False) as pipe:
            for run_id in run_ids:
                pipe.hmget(run_key("run", run_id), "status", "archived", *_SIZES)
            found = zip(run_ids, pipe.execute(), strict=True)
        return {
            run_id: sum(int(size or 0) for size in sizes)
            for run_id, (status, archived, *sizes) in found
            if status in FINAL and archived is None
        }

    def archive(self, stored: Sequence[tuple[ReadRun, ObjectPlace]]) -> set[str]:
        """Remove from Redis what an archive has of runs; return those of which that was done.

        It is not of those that were touched since they were read.
        """
        transition, clock = self._store.transition("archive_run"), self._store.clock.argument()
        with self._store.client.pipeline(transaction=False) as pipe:
            for read, place in stored:
                run = read.whole
                transition(
                    partition_of(run.run_id),
                    run.run_id,
                    read.seen,
                    str(place),
                    *flat(summary.summary_of(run)),
                    clock=clock,
                    client=pipe,
                )
            answers = pipe.execute()
        return {
            read.whole.run_id
            for (read, _), answer in zip(stored, answers, strict=True)
            if transition.result(answer).archived
        }

    def restore(self, run: WholeRun, place: ObjectPlace) -> bool:
        """Bring an archived run back; return False if it is not archived there any more."""
        fields = flat(summary.without_summary(run))
        parts = {kind: part for kind, part in run.parts.items() if kind != "children"}
        settings = self._store.settings
        after_s = max(_RESTORED_S, settings.archive_after_s)
        answer = self._store.call(
            "restore_run",
            run.run_id,
            str(place),
            int(1000 * after_s) if settings.archive and "parent" not in run.record else "",
            len(fields) // 2,
            *fields,
            *reading.words_of(replace(run, parts=parts)),
        )
        return bool(answer.restored)

    def postpone(self, run_ids: Sequence[str], by_s: float) -> None:
        """Archive root runs later than now."""
        due_ms = self._store.clock.now_ms() + int(1000 * by_s)
        with self._store.client.pipeline(transaction=False) as pipe:
            for run_id in run_ids:
                pipe.zadd(archivable_key(partition_of(run_id)), {run_id: due_ms}, xx=True)
            pipe.execute()
