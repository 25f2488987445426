"""What the stages of a build hand on to each other: documents, and the texts of batches."""

from __future__ import annotations

import zlib
from typing import Any

import redis

from sleipnir.scheduler.store.keys import build_file_key

_PART_BYTES = 1024 * 1024
# Longer than any build; a finished one removes its own.
_KEPT_S = 86_400


class BuildFiles:
    """Contents by name, in parts that Redis can move about; compressed."""

    def __init__(self, client: redis.Redis) -> None:
        # redis-py types every answer as a union of its sync and async forms.
        self._redis: Any = client

    def put(self, name: str, content: bytes) -> None:
        """Keep a content: all of it, or nothing that anybody would find.

        Raises:
            RedisError: it cannot be kept.
        """
        data = zlib.compress(content, 1)
        # The last part to be written is the first to be read, and tells how many there are.
        for number in range(len(data) // _PART_BYTES, 0, -1):
            part = data[number * _PART_BYTES : (number + 1) * _PART_BYTES]
            self._redis.set(build_file_key(name, number), part, ex=_KEPT_S)
        first = len(data).to_bytes(8, "big") + data[:_PART_BYTES]
        self._redis.set(build_file_key(name, 0), first, ex=_KEPT_S)

    def get(self, name: str) -> bytes | None:
        """A content; None if it is not kept any more."""
        first = self._part(name, 0)
        if first is None:
            return None
        length, data = int.from_bytes(first[:8], "big"), bytearray(first[8:])
        for number in range(1, length // _PART_BYTES + 1):
            data += self._part(name, number) or b""
        return zlib.decompress(bytes(data)) if len(data) == length else None

    def remove(self, name: str) -> None:
        """Forget a content."""
        first = self._part(name, 0)
        parts = int.from_bytes(first[:8], "big") // _PART_BYTES if first else 0
        for number in range(parts + 1):
            self._redis.delete(build_file_key(name, number))

    def _part(self, name: str, number: int) -> bytes | None:
        key = build_file_key(name, number)
        found = self._redis.execute_command("GET", key, NEVER_DECODE=True)
        return None if found is None else bytes(found)
