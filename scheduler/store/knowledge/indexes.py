"""Packed indexes of knowledge bases by their address, in parts that Redis can move about."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import redis

from sleipnir.scheduler.store.keys import index_key, index_of_key

PART_BYTES = 1024 * 1024


@dataclass(frozen=True, slots=True)
class PackedIndex:
    """An archive, and the hash that tells whether it arrived whole."""

    digest: str  # sha256 of the data, hexadecimal
    data: bytes
    info: Mapping[str, Any] = field(default_factory=dict)  # what a pointer says of it


class Indexes:
    """Those that all workers on one Redis share.

    Each expires a retention time after it was last put or used.
    """

    def __init__(self, client: redis.Redis, retention_s: float) -> None:
        # redis-py types every answer as a union of its sync and async forms.
        self._redis: Any = client
        self._keep_ms = round(retention_s * 1000)

    def put(self, address: str, packed: PackedIndex) -> None:
        """Keep an index: all of it, or nothing that anybody would find.

        Raises:
            RedisError: it cannot be kept.
        """
        starts = range(0, len(packed.data), PART_BYTES)
        for number, start in enumerate(starts):
            part = packed.data[start : start + PART_BYTES]
            self._redis.set(f"{index_key(address)}:{number}", part, px=self._keep_ms)
        # Whoever finds this finds the parts.
        record = {"digest": packed.digest, "parts": len(starts), "info": dict(packed.info)}
        self._redis.set(index_key(address), json.dumps(record), px=self._keep_ms)

    def has(self, address: str) -> bool:
        """Whether an index is kept; it stays for another retention time."""
        return self._record(address) is not None

    def info(self, address: str) -> Mapping[str, Any] | None:
        """What was put with an index; None if it is not kept."""
        found = self._record(address)
        return None if found is None else dict(found["info"])

    def get(self, address: str) -> PackedIndex | None:
        """An index as it was put; None if a part of it is gone."""
        found = self._record(address)
        if found is None:
            return None
        data = bytearray()
        for number in range(found["parts"]):
            part = self._redis.execute_command(
                "GET", f"{index_key(address)}:{number}", NEVER_DECODE=True
            )
            if part is None:
                return None
            data += part
        return PackedIndex(found["digest"], bytes(data), found["info"])

    def remove(self, address: str) -> None:
        """Forget an index."""
        found = self._record(address)
        self._redis.delete(index_key(address))
        for number in range(found["parts"] if found else 0):
            self._redis.delete(f"{index_key(address)}:{number}")

    def address_of(self, bundle: str, node: str) -> str | None:
        """The address of what was built for a node of a packed agent."""
        found = self._redis.get(index_of_key(bundle, node))
        return None if found is None else str(found)

    def note_address(self, bundle: str, node: str, address: str) -> None:
        """Remember the address for `address_of`."""
        self._redis.set(index_of_key(bundle, node), address, px=self._keep_ms)

    def _record(self, address: str) -> dict[str, Any] | None:
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
