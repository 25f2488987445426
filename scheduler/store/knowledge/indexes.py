"""Packed indexes of knowledge bases by address, in Redis or in the configured store."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import IO, Any

import redis

from sleipnir.scheduler.config.settings import Settings
from sleipnir.scheduler.store.cluster.groups import tag_for
from sleipnir.scheduler.store.keys import BUNDLES, INDEX_OF, index_key, index_part_key
from sleipnir.scheduler.store.knowledge.artifact_store import OutsideIndexes
from sleipnir.scheduler.store.knowledge.packed import PackedIndex

PART_BYTES = 1024 * 1024
# A pointer is a file on some machine, whose deletion nobody reports. So it counts for this long
# after a command last read it.
POINTED_AT_S = 90 * 86_400.0


class Indexes:
    """The indexes shared by all workers of one Redis.

    Each is removed a retention time after its last use, but never before what refers to it:
    pointers that commands read, and bundles of runs.
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
        """Return the info stored with an index, or None, and extend its retention."""
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
        """Return the address of the index built for a node of a packed agent, or None."""
        found = self._redis.hget(INDEX_OF, f"{bundle} {node}")
        return None if found is None else str(found)

    def note_address(self, bundle: str, node: str, address: str) -> None:
        """Record the address for `address_of`, which keeps the index as long as the bundle."""
        self._redis.hset(INDEX_OF, f"{bundle} {node}", address)

    def keep_named(self) -> None:
        """Extend the retention of all stored bundles' indexes; drop the addresses of other bundles.

        Raises:
            RedisError, ArtifactStoreFailed: the store cannot be reached.
        """
        for name, address in self._redis.hgetall(INDEX_OF).items():
            digest = name.partition(" ")[0]
            if self._redis.zscore(f"{tag_for(self._redis, digest)}{BUNDLES}", digest) is None:
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
        """Return the record of an index if all parts exist, or None, and extend its retention.

        Args:
            keep_s: keep it at least this long, if longer than the retention time.
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
        """Set the index to expire after one retention time."""
        text = self._redis.get(index_key(address))
        if text is not None:
            self._keep(address, json.loads(text), self._retention_ms)

    def _keep(self, address: str, record: Mapping[str, Any], keep_ms: int) -> bool:
        """Set the expiry of an index; return whether all parts exist."""
        with self._redis.pipeline(transaction=False) as pipe:
            for key in (index_key(address), *_part_keys(address, record)):
                pipe.pexpire(key, keep_ms)
            return all(pipe.execute())


def _part_keys(address: str, record: Mapping[str, Any]) -> list[str]:
    return [index_part_key(address, record["digest"], part) for part in range(record["parts"])]
