"""What is stored about a batch besides its runs: its record, and the files of its lines."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sleipnir.scheduler.store.cluster.groups import tags_of
from sleipnir.scheduler.store.keys import batch_files_key, batch_key
from sleipnir.scheduler.store.transitions import Transitions

# The field with the size of all files.
_SIZE = "bytes"
_REMOVED = "removed "
_OF_INPUT = ("agent", "lines")
_WEBHOOK = "webhook"


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

    def note_webhook(self, batch: str, url: str) -> None:
        """Have events of a batch sent to the URL that its last submission names."""
        with self._store.client.pipeline() as pipe:
            pipe.hset(batch_key(batch), _WEBHOOK, url)
            pipe.pexpire(batch_key(batch), 2 * int(self._store.settings.retention_s * 1000))
            pipe.execute()

    def webhook(self, batch: str) -> str | None:
        """Return the URL that events of a batch are sent to besides hooks, if there is one."""
        url: Any = self._store.client.hget(batch_key(batch), _WEBHOOK)
        return None if url is None else str(url)

    def record(self, batch: str) -> dict[str, str]:
        """Return what a batch's record says of its runs, with the sums of removed ones.

        Who is told of the batch, and when it may have finished, is this engine's business.
        """
        key = batch_key(batch)
        tags: set[str] = {"", *tags_of(self._store.client)}
        with self._store.client.pipeline(transaction=False) as pipe:
            for tag in tags:
                pipe.hgetall(f"{tag}{key}")
            found: list[dict[str, str]] = pipe.execute()
        record: dict[str, str] = {}
        for name, value in (pair for fields in found for pair in fields.items()):
            if name.startswith(_REMOVED):
                record[name] = str(int(record.get(name, 0)) + int(value))
            elif name in _OF_INPUT:
                record[name] = value
        return record

    def restore(self, batch: str, record: Mapping[str, str]) -> None:
        """Store what is not there of the record of a batch of another engine; safe to repeat."""
        retention_ms = int(self._store.settings.retention_s * 1000)
        sums = f"{tags_of(self._store.client)[0]}{batch_key(batch)}"
        with self._store.client.pipeline(transaction=False) as pipe:
            for name, value in record.items():
                key = sums if name.startswith(_REMOVED) else batch_key(batch)
                pipe.hsetnx(key, name, value)
                pipe.pexpire(key, 2 * retention_ms)
            pipe.execute()

    def files(self, batch: str) -> list[str]:
        """Return the SHA-256 of all files of a batch."""
        found: Any = self._store.client.hkeys(batch_files_key(batch))
        return sorted(set(found) - {_SIZE})

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
