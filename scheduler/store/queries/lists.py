"""Lists of runs."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, islice

from sleipnir.scheduler.runs.model import Run, Status
from sleipnir.scheduler.store.keys import ALL_PARTITIONS
from sleipnir.scheduler.store.queries.records import RecordQueries

_AT_ONCE = 500


class ListQueries(RecordQueries):
    """Reads of indexes."""

    def recent(
        self,
        limit: int,
        *,
        status: Status | None = None,
        agent: str | None = None,
        batch: str | None = None,
    ) -> list[Run]:
        """The newest root runs that fit, newest first."""
        chosen: list[Run] = []
        for ids in self._newest_ids(batch, limit):
            for run in self.runs(ids):
                if (
                    run is None
                    or (status and run.status != status)
                    or (agent and run.agent != agent)
                ):
                    continue
                chosen.append(run)
                if len(chosen) == limit:
                    return chosen
        return chosen

    def _newest_ids(self, batch: str | None, page: int) -> Iterator[list[str]]:
        """Ids by time of creation, newest first, a page at a time."""
        index = "runs" if batch is None else f"batch:{batch}"
        start = 0
        while True:
            with self._redis.pipeline(transaction=False) as pipe:
                for partition in ALL_PARTITIONS:
                    pipe.zrevrange(f"{partition}:{index}", 0, start + page - 1, withscores=True)
                found = [pair for pairs in pipe.execute() for pair in pairs]
            found.sort(key=lambda pair: pair[1], reverse=True)
            ids = [run_id for run_id, _ in found[start : start + page]]
            if not ids:
                return
            yield ids
            start += page

    def batch_pages(self, batch: str, page: int = 500) -> Iterator[list[str]]:
        """The runs of a batch, a page at a time."""
        ids = chain.from_iterable(self._runs_of(batch, partition) for partition in ALL_PARTITIONS)
        while found := list(islice(ids, page)):
            yield found

    def _runs_of(self, batch: str, partition: str) -> Iterator[str]:
        start = 0
        while some := self._redis.zrange(f"{partition}:batch:{batch}", start, start + _AT_ONCE - 1):
            yield from some
            start += _AT_ONCE
