"""What is stored about a batch besides its runs: its record, and the files of its lines."""

from __future__ import annotations

from typing import Any

from sleipnir.scheduler.store.keys import batch_files_key, batch_key
from sleipnir.scheduler.store.transitions import Transitions

# The field with the size of all files.
_SIZE = "bytes"


class Batches:
    """Writes to a batch's record; its counts are written together with its runs."""

    def __init__(self, store: Transitions) -> None:
        self._store = store

    def announce(self, batch: str, agent: str, lines: int) -> None:
        """Record which agent a batch runs and how many lines it has; safe to repeat."""
        retention_ms = int(self._store.settings.retention_s * 1000)
        with self._store.client.pipeline() as pipe:
            pipe.hset(batch_key(batch), mapping={"agent": agent, "lines": lines})
            # It has to outlive the batch's last runs; twice the retention time does, unless the
            # batch itself takes longer than that.
            pipe.pexpire(batch_key(batch), 2 * retention_ms)
            pipe.execute()

    def add_file(self, batch: str, digest: str, data: bytes, limit_bytes: int) -> bool:
        """Store a file under its SHA-256, once; return False if there is no room for it.

        It is kept as long as the record of the batch.

        Args:
            limit_bytes: of all files of the batch.
        """
        key, redis = batch_files_key(batch), self._store.client
        retention_ms = int(self._store.settings.retention_s * 1000)
        with redis.pipeline() as pipe:
            pipe.hexists(key, digest)
            pipe.pexpire(key, 2 * retention_ms)
            is_stored, _ = pipe.execute()
        if is_stored:
            return True
        with redis.pipeline() as pipe:
            # Counted before it is stored: if the command dies in between, there is less room.
            pipe.hincrby(key, _SIZE, len(data))
            pipe.pexpire(key, 2 * retention_ms)
            size, _ = pipe.execute()
        if size > limit_bytes:
            redis.hincrby(key, _SIZE, -len(data))
            return False
        redis.hset(key, digest, data)
        return True

    def file(self, batch: str, digest: str) -> bytes | None:
        """Return a file by its SHA-256 in hexadecimal digits; None if it is not stored."""
        get: Any = self._store.client.execute_command  # untyped in redis-py
        data = get("HGET", batch_files_key(batch), digest, NEVER_DECODE=True)
        return None if data is None else bytes(data)

    def remove_files(self, batch: str) -> None:
        """Remove all files of a batch."""
        self._store.client.unlink(batch_files_key(batch))
