"""Packed indexes of knowledge bases by their address, in Redis or where the settings say."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import IO, Any

import redis

from sleipnir.scheduler.config.settings import Settings
from sleipnir.scheduler.store.keys import index_key, index_of_key
from sleipnir.scheduler.store.knowledge.artifact_store import OutsideIndexes
from sleipnir.scheduler.store.knowledge.packed import PackedIndex

PART_BYTES = 1024 * 1024


class Indexes:
    """Those that all workers on one Redis share.

    Each goes a retention time after it was last put or used.
    """

    def __init__(self, client: redis.Redis, settings: Settings) -> None:
        # redis-py types every answer as a union of its sync and async forms.
        self._redis: Any = client
        self._keep_ms = round(settings.retention_s * 1000)
        self._kept: RedisIndexes | OutsideIndexes = RedisIndexes(client, self._keep_ms)
        if settings.artifact_store is not None:
            self._kept = OutsideIndexes(settings.artifact_store, settings.retention_s)

    def put(self, address: str, packed: PackedIndex) -> None:
        """Keep an index: all of it, or nothing that anybody would find.

        Raises:
            RedisError, ArtifactStoreFailed: it cannot be kept.
        """
        self._kept.put(address, packed)

    def info(self, address: str) -> Mapping[str, Any] | None:
        """What was put with an index; None if it is not kept. It stays for another while."""
        found = self._kept.record(address)
        return None if found is None else dict(found["info"])

    def fetch(self, address: str, into: IO[bytes]) -> str | None:
        """Write an index to an empty file; returns the hash that its content has to have.

        None if it is not kept, or a part of it is gone.

        Raises:
            RedisError, ArtifactStoreFailed: it cannot be had.
            OSError: the file cannot be written.
        """
        return self._kept.fetch(address, into)

    def remove(self, address: str) -> None:
        """Forget an index."""
        self._kept.remove(address)

    def address_of(self, bundle: str, node: str) -> str | None:
        """Return the address of what was built for a node of a packed agent."""
        found = self._redis.get(index_of_key(bundle, node))
        return None if found is None else str(found)

    def note_address(self, bundle: str, node: str, address: str) -> None:
        """Remember the address for `address_of`."""
        self._redis.set(index_of_key(bundle, node), address, px=self._keep_ms)


class RedisIndexes:
    """Indexes in parts that Redis can move about."""

    def __init__(self, client: redis.Redis, keep_ms: int) -> None:
        self._redis: Any = client
        self._keep_ms = keep_ms

    def put(self, address: str, packed: PackedIndex) -> None:
        """Keep an index; raises RedisError."""
        packed.content.seek(0)
        parts = 0
        while part := packed.content.read(PART_BYTES):
            self._redis.set(f"{index_key(address)}:{parts}", part, px=self._keep_ms)
            parts += 1
        # Whoever finds this finds the parts.
        record = {"digest": packed.digest, "parts": parts, "info": dict(packed.info)}
        self._redis.set(index_key(address), json.dumps(record), px=self._keep_ms)

    def fetch(self, address: str, into: IO[bytes]) -> str | None:
        """As `Indexes.fetch`."""
        found = self.record(address)
        if found is None:
            return None
        for number in range(found["parts"]):
            part = self._redis.execute_command(
                "GET", f"{index_key(address)}:{number}", NEVER_DECODE=True
            )
            if part is None:
                return None
            into.write(part)
        return str(found["digest"])

    def remove(self, address: str) -> None:
        """Forget an index."""
        found = self.record(address)
        self._redis.delete(index_key(address))
        for number in range(found["parts"] if found else 0):
            self._redis.delete(f"{index_key(address)}:{number}")

    def record(self, address: str) -> dict[str, Any] | None:
        """What is kept of an index that is whole; it stays for another retention time."""
        text = self._redis.getex(index_key(address), px=self._keep_ms)
        if text is None:
            return None
        record: dict[str, Any] = json.loads(text)
        with self._redis.pipeline(transaction=False) as pipe:
            for number in range(record["parts"]):
                pipe.pexpire(f"{index_key(address)}:{number}", self._keep_ms)
            kept = pipe.execute()
        return record if all(kept) else None
