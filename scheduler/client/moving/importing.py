"""Stores the finished runs of a directory in this Redis."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Literal, Protocol

from sleipnir.records import dataclass
from sleipnir.scheduler.client.moving.checking import require_sound
from sleipnir.scheduler.client.moving.directory import ExportDirectory
from sleipnir.scheduler.errors import RunFileInvalid, SubmissionRefused
from sleipnir.scheduler.runs.labels import require_name
from sleipnir.scheduler.runs.whole.files import run_id_in
from sleipnir.scheduler.store.run_store import RunStore

_AT_ONCE = 200


class ImportingClient(Protocol):
    """What this module needs of a client."""

    store: RunStore


@dataclass(frozen=True, slots=True)
class ImportedFile:
    """What became of one file of a run or a batch."""

    place: str
    outcome: Literal["imported", "known", "expired", "refused", "batch"]
    reason: str | None = None  # of a refusal


class RunImporter:
    """Reads runs from a directory; those that this Redis has stay as they are."""

    def __init__(self, client: ImportingClient, directory: ExportDirectory) -> None:
        self._store = client.store
        self._settings = client.store.settings
        self._directory = directory
        self._agents: set[str] = set()

    def read(self) -> Iterator[ImportedFile]:
        """Store all runs, then the records of their batches; yield what becomes of each file."""
        places = self._directory.run_files()
        while some := list(islice(places, _AT_ONCE)):
            run_ids = {place: run_id_in(place.rpartition("/")[2]) for place in some}
            known = self._store.whole_runs.known([*filter(None, run_ids.values())])
            for place, run_id in run_ids.items():
                if run_id in known:
                    yield ImportedFile(place, "known")
                else:
                    yield self._read_run(place)
        for place in self._directory.batch_files():
            yield self._read_batch(place)

    def _read_run(self, place: str) -> ImportedFile:
        now_ms = self._store.clock.now_ms()
        try:
            run = self._directory.read_run(place)
            parsed = require_sound(run, now_ms)
            kept_s = self._settings.retention_s - (now_ms - (parsed.ended_at or 0)) / 1000
            if kept_s <= 0:
                return ImportedFile(place, "expired")
            # First, so that no run is without.
            for digest in {parsed.digest, *parsed.context.agents.values()}:
                self._put_agent(digest)
        except RunFileInvalid as error:
            return ImportedFile(place, "refused", str(error))
        is_new = self._store.whole_runs.put(run, kept_s)
        return ImportedFile(place, "imported" if is_new else "known")

    def _put_agent(self, digest: str) -> None:
        if digest not in self._agents:
            data = self._directory.read_agent(digest, self._settings.bundle_limit_bytes)
            self._store.bundles.put(digest, data)
            self._agents.add(digest)

    def _read_batch(self, place: str) -> ImportedFile:
        limit = self._settings.attach_file_limit_bytes
        try:
            batch = self._directory.read_batch(place)
            require_name("batch", batch.batch)
            for digest in batch.attached:
                self._store.batches.add_file(
                    batch.batch,
                    digest,
                    self._directory.read_attached(digest, limit),
                    self._settings.attach_batch_limit_bytes,
                )
        except (RunFileInvalid, SubmissionRefused) as error:
            return ImportedFile(place, "refused", str(error))
        self._store.batches.restore(batch.batch, batch.record)
        return ImportedFile(place, "batch")
