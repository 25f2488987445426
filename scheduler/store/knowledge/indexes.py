"""Packed indexes of knowledge bases by their address, in parts that Redis can move about."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Event, Thread
from typing import Any

import redis

from sleipnir.scheduler.store.errors import RedisError
from sleipnir.scheduler.store.keys import index_key, index_lease_key, index_of_key

PART_BYTES = 1024 * 1024
_RENEWALS_PER_LEASE = 3


@dataclass(frozen=True, slots=True)
class PackedIndex:
    """An archive, and the hash that tells whether it arrived whole."""

    digest: str  # sha256 of the data, hexadecimal
    data: bytes


class Indexes:
    """Those that all workers on one Redis share.

    Each expires a retention time after it was last put or used.
    """

    def __init__(self, client: redis.Redis, retention_s: float, lease_s: float) -> None:
        # redis-py types every answer as a union of its sync and async forms.
        self._redis: Any = client
        self._keep_ms = round(retention_s * 1000)
        self._lease_s = lease_s

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
        record = f"{packed.digest} {len(starts)}"
        self._redis.set(index_key(address), record, px=self._keep_ms)

    def has(self, address: str) -> bool:
        """Whether an index is kept; it stays for another retention time."""
        return self._parts(address) is not None

    def get(self, address: str) -> PackedIndex | None:
        """An index as it was put; None if a part of it is gone."""
        found = self._parts(address)
        if found is None:
            return None
        digest, parts = found
        data = bytearray()
        for number in range(parts):
            part = self._redis.execute_command(
                "GET", f"{index_key(address)}:{number}", NEVER_DECODE=True
            )
            if part is None:
                return None
            data += part
        return PackedIndex(digest, bytes(data))

    def remove(self, address: str) -> None:
        """Forget an index."""
        found = self._parts(address)
        self._redis.delete(index_key(address))
        for number in range(found[1] if found else 0):
            self._redis.delete(f"{index_key(address)}:{number}")

    def address_of(self, bundle: str, node: str) -> str | None:
        """The address of what a node of a packed agent was given, where only building told it."""
        found = self._redis.get(index_of_key(bundle, node))
        return None if found is None else str(found)

    def note_address(self, bundle: str, node: str, address: str) -> None:
        """Remember the address for `address_of`."""
        self._redis.set(index_of_key(bundle, node), address, px=self._keep_ms)

    @contextmanager
    def lease(self, name: str, holder: str) -> Iterator[bool]:
        """Be the only one who builds something; False if another one does.

        Held for as long as the block takes. It saves work, no more: equal inputs make the same
        index, so two builders would do no harm.
        """
        key, lease_ms = index_lease_key(name), round(self._lease_s * 1000)
        if not self._redis.set(key, holder, px=lease_ms, nx=True):
            yield False
            return
        done = Event()
        renewing = Thread(
            target=self._renew, args=(key, holder, lease_ms, done), name="index-lease", daemon=True
        )
        renewing.start()
        try:
            yield True
        finally:
            done.set()
            renewing.join()
            if self._redis.get(key) == holder:
                self._redis.delete(key)

    def _renew(self, key: str, holder: str, lease_ms: int, done: Event) -> None:
        while not done.wait(self._lease_s / _RENEWALS_PER_LEASE):
            try:
                if self._redis.get(key) == holder:
                    self._redis.pexpire(key, lease_ms)
            except RedisError:
                continue  # it may be back before the lease is over

    def _parts(self, address: str) -> tuple[str, int] | None:
        record = self._redis.getex(index_key(address), px=self._keep_ms)
        if record is None:
            return None
        digest, _, count = str(record).partition(" ")
        with self._redis.pipeline(transaction=False) as pipe:
            for number in range(int(count)):
                pipe.pexpire(f"{index_key(address)}:{number}", self._keep_ms)
            kept = pipe.execute()
        return (digest, int(count)) if all(kept) else None
