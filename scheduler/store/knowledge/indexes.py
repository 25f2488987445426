"""Packed indexes of knowledge bases by address, in Redis or in the configured store."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import IO, Any

import redis

from sleipnir.scheduler.config.settings import Settings
from sleipnir.scheduler.store.keys import BUNDLES, INDEX_OF, index_key, index_part_key
from sleipnir.scheduler.store.knowledge.artifact_store import OutsideIndexes
from sleipnir.scheduler.store.knowledge.packed import PackedIndex

PART_BYTES = 1024 * 1024
# A pointer is a file of some machine, and nobody tells when it is deleted. So it counts for that
# long after a command has last read it.
POINTED_AT_S = 90 * 86_400.0


class Indexes:
    """The indexes shared by all workers of one Redis.

    Each goes a retention time after it was last used, and not before what names it: the pointers
    that commands read, and the bundles of runs.
    """

    def __init__(self, client: redis.Redis, settings: Settings) -> None:
        # redis-py types every answer as a union of its sync and async forms.
        self._redis: Any = client
        retention_s = settings.retention_s
        self._pointed_at_s = max(POINTED_AT_S, retention_s)
        self._kept: RedisIndexes | OutsideIndexes = RedisIndexes(client, retention_s)
        if settings.artifact_store is not None:
            self._kept = OutsideIndexes(settings.artifact_store, retention_s)

    def put(self, address: str, packed: PackedIndex) -> None:
        """Store an index; it can be found only once all of it is written.

        Raises:
            RedisError, ArtifactStoreFailed: it cannot be stored.
        """
        self._kept.put(address, packed)

    def info(self, address: str) -> Mapping[str, Any] | None:
        """Return what was put with an index, None if it is not kept; it stays for another while."""
        found = self._kept.record(address)
        return None if found is None else dict(found["info"])

    def fetch(self, address: str, into: IO[bytes]) -> str | None:
        """Write an index to an empty file; return the hash that its content must have.

        Returns None if it, or a part of it, is no longer stored.

        Raises:
            RedisError, ArtifactStoreFailed: it cannot be read.
            OSError: the file cannot be written.
        """
        return self._kept.fetch(address, into)

    def point_at(self, address: str) -> None:
        """Keep an index for a pointer that names it; raises as `fetch`."""
        self._kept.record(address, self._pointed_at_s)

    def let_go(self, address: str) -> None:
        """Stop keeping an index for a pointer that named it; raises as `fetch`."""
        self._kept.let_go(address)

    def address_of(self, bundle: str, node: str) -> str | None:
        """Return the address of what was built for a node of a packed agent."""
        found = self._redis.hget(INDEX_OF, f"{bundle} {node}")
        return None if found is None else str(found)

    def note_address(self, bundle: str, node: str, address: str) -> None:
        """Remember the address for `address_of`, and keep the index as long as the bundle."""
        self._redis.hset(INDEX_OF, f"{bundle} {node}", address)

    def keep_named(self) -> None:
        """Keep the indexes of all bundles that are stored, and forget those of others.

        Raises:
            RedisError, ArtifactStoreFailed: it cannot be done.
        """
        for name, address in self._redis.hgetall(INDEX_OF).items():
            if self._redis.zscore(BUNDLES, name.partition(" ")[0]) is None:
                self._redis.hdel(INDEX_OF, name)
            else:
                self._kept.record(address)


class RedisIndexes:
    """Indexes in Redis, in parts small enough for it to move."""

    def __init__(self, client: redis.Redis, retention_s: float) -> None:
        self._redis: Any = client
        self._retention_ms = round(retention_s * 1000)

    def put(self, address: str, packed: PackedIndex) -> None:
        """Store an index; raises RedisError."""
        packed.content.seek(0)
        parts = 0
        while part := packed.content.read(PART_BYTES):
            key = index_part_key(address, packed.digest, parts)
            self._redis.set(key, part, px=self._retention_ms)
            parts += 1
        # Written last: whoever finds the record finds all parts.
        record = {"digest": packed.digest, "parts": parts, "info": dict(packed.info)}
        self._redis.set(index_key(address), json.dumps(record), px=self._retention_ms)

    def fetch(self, address: str, into: IO[bytes]) -> str | None:
        """Fetch an index as `Indexes.fetch` does."""
        found = self.record(address)
        if found is None:
            return None
        for key in _part_keys(address, found):
            part = self._redis.execute_command("GET", key, NEVER_DECODE=True)
            if part is None:
                return None
            into.write(part)
        return str(found["digest"])

    def record(self, address: str, keep_s: float = 0.0) -> dict[str, Any] | None:
        """Return what is kept of an index that is whole, and keep it for another retention time.

        Args:
            keep_s: it stays that long, if that is longer.
        """
        with self._redis.pipeline() as pipe:
            pipe.get(index_key(address))
            pipe.pttl(index_key(address))
            text, left_ms = pipe.execute()
        if text is None:
            return None
        record: dict[str, Any] = json.loads(text)
        keep_ms = max(left_ms, self._retention_ms, round(keep_s * 1000))
        return record if self._keep(address, record, keep_ms) else None

    def let_go(self, address: str) -> None:
        """Have it stay for another retention time, and no longer."""
        text = self._redis.get(index_key(address))
        if text is not None:
            self._keep(address, json.loads(text), self._retention_ms)

    def _keep(self, address: str, record: Mapping[str, Any], keep_ms: int) -> bool:
        """Return whether all of it is there."""
        with self._redis.pipeline(transaction=False) as pipe:
            for key in (index_key(address), *_part_keys(address, record)):
                pipe.pexpire(key, keep_ms)
            return all(pipe.execute())


def _part_keys(address: str, record: Mapping[str, Any]) -> list[str]:
    return [index_part_key(address, record["digest"], part) for part in range(record["parts"])]
