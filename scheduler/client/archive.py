"""The archive as people look at it: how it stands, whether it is sound, and what is in it."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Final, Protocol

from sleipnir.records import dataclass
from sleipnir.scheduler.client.moving.checking import require_sound
from sleipnir.scheduler.errors import (
    ArchiveFailed,
    ObjectDamaged,
    RunFileInvalid,
    RunNotFound,
    SettingInvalid,
)
from sleipnir.scheduler.runs.whole.parts import WholeRun
from sleipnir.scheduler.store.archive.archive import Archive, Archived, ArchivedObject
from sleipnir.scheduler.store.archive.figures import ArchiveCounts, ArchiveFigures
from sleipnir.scheduler.store.archive.restoring import restore_tree
from sleipnir.scheduler.store.queries import RunQueries
from sleipnir.scheduler.store.queries.filters import RunFilter
from sleipnir.scheduler.store.run_store import RunStore

_AT_ONCE: Final = 200
_THREADS: Final = 16
_SHORTEST_S: Final = 3600.0  # of a run that was brought back


class ArchiveClient(Protocol):
    """What this module needs of a client."""

    store: RunStore
    queries: RunQueries


@dataclass(frozen=True, slots=True)
class Verified:
    """A run that is archived, and what is wrong with its object; None: nothing."""

    run_id: str
    problem: str | None


def archive_of(client: ArchiveClient) -> Archive:
    """Return the archive of the settings.

    Raises:
        SettingInvalid: there is none.
    """
    if client.store.archive is None:
        raise SettingInvalid(
            "archive is not set, so finished runs stay in Redis: set it to a directory or an "
            "fsspec URL, for schedulers, monitors and commands alike"
        )
    return client.store.archive


def figures(client: ArchiveClient) -> ArchiveFigures:
    """Return how archiving stands."""
    return ArchiveCounts(client.store.client, client.store.clock).read()


def verify(client: ArchiveClient) -> Iterator[Verified]:
    """Read the object of every archived run that is stored, and yield what came of each.

    Raises:
        SettingInvalid: there is no archive, or its key is missing.
    """
    archive, archived = archive_of(client), client.store.archived
    assert archived is not None

    def check(run_id: str, at: Archived) -> Verified:
        try:
            archive.open(run_id, archive.fetch(run_id, at.place))
        except ArchiveFailed as error:
            return Verified(run_id, str(error))
        return Verified(run_id, None)

    with ThreadPoolExecutor(_THREADS) as threads:
        for run_ids in _all_runs(client.queries):
            places = archived.places(run_ids)
            yield from threads.map(check, places.keys(), places.values())


def _all_runs(queries: RunQueries) -> Iterator[list[str]]:
    cursor = None
    while True:
        page = queries.list_runs(RunFilter(children=True), _AT_ONCE, cursor)
        yield [row.run_id for row in page.entries]
        cursor = page.next
        if cursor is None:
            return


def restore(client: ArchiveClient, name: str) -> int:
    """Bring a run and all that it has started back into Redis; return how many runs came.

    Those whose retention is over are kept for it once more, but no longer than their objects.

    Args:
        name: of the run, its id; a part of it suffices if Redis has the run still.

    Raises:
        RunNotFound: neither Redis nor the archive has it.
        ArchiveFailed, SettingInvalid: the archive cannot be used.
    """
    archive = archive_of(client)
    try:
        run_id = client.queries.resolve(name)
    except RunNotFound:
        return _put_back(client, archive, name)
    return restore_tree(client.store, run_id)


def _put_back(client: ArchiveClient, archive: Archive, run_id: str) -> int:
    found = next((each for each in archive.objects() if each.run_id == run_id), None)
    if found is None:
        raise RunNotFound(run_id)
    run = archive.newest(run_id, found.day)
    return _put(client, archive, run, found.day, _kept_s(client, run))


def _kept_s(client: ArchiveClient, run: WholeRun) -> float:
    """Return for how long Redis is to keep a run that it has forgotten."""
    settings = client.store.settings
    if settings.archive_retention_s is None:
        return settings.retention_s
    # It is archived again on its old day, and would be listed without its object.
    ended_s = int(run.record["ended"]) / 1000
    left_s = ended_s + settings.archive_retention_s - client.store.clock.now_ms() / 1000
    return max(_SHORTEST_S, min(settings.retention_s, left_s))


def _put(client: ArchiveClient, archive: Archive, run: WholeRun, day: str, kept_s: float) -> int:
    try:
        require_sound(run, client.store.clock.now_ms())
    except RunFileInvalid as error:
        # No record has its SHA-256 any more, so it may be anybody's.
        raise ObjectDamaged(f"the object of run {run.run_id} is not sound: {error}") from error
    put = 0
    for child in map(str, run.parts.get("children", ())):
        put += _put(client, archive, archive.newest(child, day), day, kept_s)
    return put + client.store.whole_runs.put(run, kept_s)


def objects(client: ArchiveClient, since_ms: int) -> Iterator[ArchivedObject]:
    """Yield the objects of runs that ended since an instant, the newest day first.

    Raises:
        ArchiveFailed, SettingInvalid: the archive cannot be used.
    """
    first = datetime.fromtimestamp(since_ms / 1000, UTC).strftime("%Y/%m/%d")
    return archive_of(client).objects(first)
