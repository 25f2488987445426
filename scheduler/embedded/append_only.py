"""The append-only file of a private Redis: whether all that was acknowledged is in it, and on disk.

Redis acknowledges before it has put a write on disk, and WAITAOF is no way to wait for that: Valkey
9.1 without replicas answers it before the file is synced. Whoever runs on the same machine can
sync the file himself: what one process has written, any other can have put on disk.

Standard library only, like everything that the engine's own process needs.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from time import monotonic

from sleipnir.scheduler.embedded.redis_server import PrivateRedis
from sleipnir.scheduler.errors import NotKept
from sleipnir.scheduler.periodic import pause

# Redis puts a write off while a sync is under way, by two seconds at most.
_PUT_OFF_S = 3.0
_BETWEEN_LOOKS_S = 0.005
# A file may be rewritten, and removed, between our reading its name and opening it.
_TRIES = 5


def unwritten(server: PrivateRedis) -> str | None:
    """Return why something that Redis has acknowledged is not in its file; None if all is.

    None as well if nobody answers there: what is not written then is lost already.
    """
    until = monotonic() + _PUT_OFF_S
    while state := server.persistence():
        if state.get("aof_enabled") != "1":
            return None
        if state.get("aof_last_write_status") != "ok":
            return server.complaint() or "writing its append-only file failed"
        # In a busy server something is always on its way; what we ask for is then written.
        if state.get("aof_buffer_length", "0") == "0" or monotonic() > until:
            return None
        pause(_BETWEEN_LOOKS_S)
    return None


def sync(server: PrivateRedis) -> None:
    """Return once everything that Redis has acknowledged before is on disk.

    Raises:
        NotKept: it cannot be put there.
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
    # Their names too: the first run of a data directory comes with a new file.
    for path in (*files, *dict.fromkeys(file.parent for file in files), directory.parent):
        sync_path(path)


def _appended(directory: Path) -> list[Path]:
    """Return the files that Redis appends to: of a manifest, before Redis 7 a single one."""
    folder = directory / "appendonlydir"
    try:
        manifest = (folder / "appendonly.aof.manifest").read_text()
    except FileNotFoundError:
        return [directory / "appendonly.aof"]
    return [folder / name for name in re.findall(r"^file (\S+) seq \d+ type i", manifest, re.M)]


def sync_path(path: Path) -> None:
    """Put a file, or the names in a directory, on disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
