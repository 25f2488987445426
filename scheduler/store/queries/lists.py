"""Lists of runs."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from sleipnir.scheduler.runs.model import Run, Status
from sleipnir.scheduler.store.keys import ALL_PARTITIONS, batch_key
from sleipnir.scheduler.store.queries.records import RecordQueries


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
        """The newest runs that fit, newest first."""
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
        if batch is not None:
            members = self._redis.smembers(batch_key(batch))
            runs = [run for run in self.runs(sorted(members)) if run is not None]
            runs.sort(key=lambda run: run.created_at, reverse=True)
            yield [run.run_id for run in runs]
            return
        start = 0
        while True:
            with self._redis.pipeline(transaction=False) as pipe:
                for partition in ALL_PARTITIONS:
                    pipe.zrevrange(f"{partition}:runs", 0, start + page - 1, withscores=True)
                found = [pair for pairs in pipe.execute() for pair in pairs]
            found.sort(key=lambda pair: pair[1], reverse=True)
            ids = [run_id for run_id, _ in found[start : start + page]]
            if not ids:
                return
            yield ids
            start += page

    def batch_pages(self, batch: str, page: int = 500) -> Iterator[list[str]]:
        """The runs of a batch, a page at a time."""
        ids = self._redis.sscan_iter(batch_key(batch), count=page)
        while found := list(islice(ids, page)):
            yield found
