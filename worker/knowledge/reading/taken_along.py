"""Documents packed into a bundle because only the submitting machine can read them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from sleipnir.graphs.knowledge.plan import documents_file
from sleipnir.scheduler.config.settings import Settings
from sleipnir.scheduler.store.connection import is_private
from sleipnir.worker.knowledge.reading.documents import Loaded
from sleipnir.worker.knowledge.reading.loading import load_local, only_here
from sleipnir.worker.knowledge.reading.reach import reach_here


def read_ahead(
    directory: Path,
    entries: Sequence[str],
    settings: Settings,
    file: Path,
    leaves_out: Callable[[Sequence[tuple[str, str]]], bool] | None,
) -> tuple[str, ...]:
    """Read what workers could not, and write it to a file if there is any.

    Args:
        directory: the agent's, links resolved.
        leaves_out: asks whether to go on without documents, given their sources and reasons; then
            all local documents are tried. None: nobody can be asked.

    Returns:
        The sources of the documents to leave out.

    Raises:
        BuildFailed: documents cannot be read and must not be left out, or there is no room.
    """
    reach = reach_here(settings)
    here = only_here(directory, entries, reach)
    if settings.redis_url is not None and is_private(settings.redis_url) and leaves_out is None:
        return ()  # the workers are on this machine
    if not here and leaves_out is None:
        return ()
    others = set(range(len(entries))) - here if leaves_out is None else set()
    loaded = Loaded()
    loaded.read |= others
    load_local(directory, entries, reach, lambda: False, loaded)
    without = _agreed(loaded, leaves_out)
    if here:
        with file.open("wb") as target:
            target.writelines(loaded.lines(here))
    return without


def _agreed(
    loaded: Loaded, leaves_out: Callable[[Sequence[tuple[str, str]]], bool] | None
) -> tuple[str, ...]:
    """Return the sources of documents that the user agrees to leave out."""
    failures = loaded.failures
    if not failures or leaves_out is None:
        return ()
    if not leaves_out(failures):
        loaded.require_readable()
    without = tuple(source for source, _ in failures)
    loaded.leave_out(without)
    return without


def brought(root: Path, node: str) -> Loaded:
    """Return the documents that an unpacked bundle contains for a knowledge base.

    Raises:
        BuildFailed: there is no room for them.
    """
    try:
        with (root / documents_file(node)).open("rb") as file:
            return Loaded.from_lines(file)
    except FileNotFoundError:
        return Loaded()
