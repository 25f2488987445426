"""Writes finished runs, and what belongs to them, into a directory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Literal, Protocol

from sleipnir.records import dataclass
from sleipnir.scheduler.client.moving.directory import BatchFile, ExportDirectory
from sleipnir.scheduler.errors import RunFileInvalid
from sleipnir.scheduler.runs.model import FINAL, Run
from sleipnir.scheduler.runs.whole.parts import WholeRun
from sleipnir.scheduler.store.archive.summary import OF_ARCHIVED
from sleipnir.scheduler.store.queries import RunQueries
from sleipnir.scheduler.store.queries.filters import RunFilter
from sleipnir.scheduler.store.run_store import RunStore

_PAGE = 100


class ExportingClient(Protocol):
    """What this module needs of a client."""

    store: RunStore
    queries: RunQueries


@dataclass(frozen=True, slots=True)
class ExportedRun:
    """What became of one run or child run."""

    run_id: str
    outcome: Literal["written", "unchanged", "gone", "refused"]
    reason: str | None = None  # of a refusal


def finished_runs(queries: RunQueries) -> Iterator[list[Run]]:
    """Yield all root runs that have ended, page by page."""
    cursor = None
    while True:
        page = queries.list_runs(RunFilter(statuses=FINAL), _PAGE, cursor)
        found = queries.runs([row.run_id for row in page.entries])
        yield [run for run in found if run is not None and run.is_final]
        cursor = page.next
        if cursor is None:
            return


class RunExporter:
    """Writes runs into a directory; what is there as it is stays untouched."""

    def __init__(self, client: ExportingClient, directory: ExportDirectory) -> None:
        self._client = client
        self._directory = directory
        self._batches: set[str] = set()

    def write(self, roots: Iterable[Run]) -> Iterator[ExportedRun]:
        """Write finished root runs with their child runs; yield what becomes of each.

        Their agents are written first, so that no run is without.

        Raises:
            OSError: something cannot be written.
            ArchiveFailed: an archived run cannot be read.
        """
        for root in roots:
            for run in self._tree(root):
                for digest in {run.digest, *run.context.agents.values()}:
                    self._write_agent(digest)
                if run.batch is not None and run.batch not in self._batches:
                    self._batches.add(run.batch)
                    self._write_batch(run.batch)
                yield self._write_run(run.run_id)

    def _tree(self, run: Run) -> Iterator[Run]:
        yield run
        for child in self._client.queries.children(run.run_id):
            yield from self._tree(child)

    def _write_run(self, run_id: str) -> ExportedRun:
        (found,) = self._client.store.whole_runs.read([run_id])
        if found is None or found.whole.record.get("status") not in FINAL:
            return ExportedRun(run_id, "gone")  # or continued meanwhile
        try:
            is_written = self._directory.write_run(self._completed(found.whole))
        except RunFileInvalid as error:
            return ExportedRun(run_id, "refused", str(error))
        return ExportedRun(run_id, "written" if is_written else "unchanged")

    def _completed(self, run: WholeRun) -> WholeRun:
        """Return a run with what an archive has of it, and as if it was never archived."""
        archived = self._client.store.archived
        place = None if archived is None else archived.places([run.run_id]).get(run.run_id)
        if archived is None or place is None:
            return run
        whole = archived.whole(run.run_id, place)
        record = {**whole.record, **run.record}
        return WholeRun(
            run.run_id,
            {name: value for name, value in record.items() if name not in OF_ARCHIVED},
            {**whole.parts, **run.parts},
            whole.visits,
        )

    def _write_agent(self, digest: str) -> None:
        if self._directory.has_agent(digest):
            return
        data = self._client.store.bundles.get(digest)
        if data is not None:
            self._directory.write_agent(digest, data)

    def _write_batch(self, batch: str) -> None:
        batches = self._client.store.batches
        attached = batches.files(batch)
        for digest in attached:
            if not self._directory.has_attached(digest) and (data := batches.file(batch, digest)):
                self._directory.write_attached(digest, data)
        self._directory.write_batch(BatchFile(batch, batches.record(batch), tuple(attached)))
