"""Makes sure that everything a private Redis has acknowledged is on disk in its append-only file.

Redis acknowledges writes before they are on disk, and WAITAOF does not reliably wait for that:
Valkey 9.1 without replicas answers it before the file is synced. But any process on the same
machine can sync the file.

Standard library only, like everything that the engine's own process needs.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from time import monotonic

from sleipnir.scheduler.embedded.redis_server import PrivateRedis
from sleipnir.scheduler.errors import NotKept
from sleipnir.scheduler.process.periodic import pause

# Redis delays writes while a sync is running, by two seconds at most.
_PUT_OFF_S = 3.0
_BETWEEN_LOOKS_S = 0.005
# A file may be rewritten and removed after we read its name and before we open it.
_TRIES = 5


def unwritten(server: PrivateRedis) -> str | None:
    """Return why an acknowledged write is not in the file yet; None if all are.

    Also None if Redis does not answer: what it has not written then is already lost.
    """
    until = monotonic() + _PUT_OFF_S
    while state := server.persistence():
        if state.get("aof_enabled") != "1":
            return None
        if state.get("aof_last_write_status") != "ok":
            return server.complaint() or "writing its append-only file failed"
        # A busy server always has something pending; by now, earlier writes are in the file.
        if state.get("aof_buffer_length", "0") == "0" or monotonic() > until:
            return None
        pause(_BETWEEN_LOOKS_S)
    return None


def sync(server: PrivateRedis) -> None:
    """Sync everything that Redis has acknowledged so far to disk.

    Raises:
        NotKept: it cannot be written.
    """
    if why := unwritten(server):
        raise NotKept(f"Redis cannot write its data in {server.directory}: {why}")
    try:
        for _ in range(_TRIES):
            try:
                return _sync_files(server.directory)
            except FileNotFoundError:
                continue
        raise NotKept(f"the append-only file of Redis is missing in {server.directory}")
    except OSError as error:
        raise NotKept(
            f"cannot put {error.filename or server.directory} on disk: {error.strerror}"
        ) from error


def _sync_files(directory: Path) -> None:
    files = _appended(directory)
    # Directories too: the first run of a data directory creates a new file.
    for path in (*files, *dict.fromkeys(file.parent for file in files), directory.parent):
        sync_path(path)


def _appended(directory: Path) -> list[Path]:
    """Return the files that Redis appends to: from its manifest; before Redis 7, a single one."""
    folder = directory / "appendonlydir"
    try:
        manifest = (folder / "appendonly.aof.manifest").read_text()
    except FileNotFoundError:
        return [directory / "appendonly.aof"]
    return [folder / name for name in re.findall(r"^file (\S+) seq \d+ type i", manifest, re.M)]


def sync_path(path: Path) -> None:
    """Sync a file, or the entries of a directory, to disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
