"""Data that the stages of a build hand on: documents, and the texts of batches."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any

import redis

from sleipnir.scheduler.store.keys import build_file_key

_PART_BYTES = 1024 * 1024
# Longer than any build takes; a finished build removes its files.
_KEPT_S = 86_400


class BuildFileGone(Exception):
    """A file, or a part of it, is no longer stored."""


class BuildFiles:
    """Files by name, compressed, in parts small enough for Redis to move."""

    def __init__(self, client: redis.Redis) -> None:
        # redis-py types every answer as a union of its sync and async forms.
        self._redis: Any = client

    def put(self, name: str, content: Iterable[bytes]) -> None:
        """Store a file; it can be found only once all of it is written.

        Raises:
            RedisError: it cannot be stored.
        """
        first, length = b"", 0
        for number, part in enumerate(_parts(content)):
            length += len(part)
            if number == 0:
                first = part
            else:
                self._redis.set(build_file_key(name, number), part, ex=_KEPT_S)
        # Written last and read first; it tells how many parts there are.
        first = length.to_bytes(8, "big") + first
        self._redis.set(build_file_key(name, 0), first, ex=_KEPT_S)

    def get(self, name: str) -> Iterator[bytes]:
        """Yield a file's content in blocks.

        Raises:
            BuildFileGone: it is no longer stored; possibly raised after some blocks.
        """
        first = self._part(name, 0)
        length, unpacking = int.from_bytes(first[:8], "big"), zlib.decompressobj()
        for number in range(max(1, -(-length // _PART_BYTES))):
            packed = self._part(name, number) if number else first[8:]
            while packed:
                yield unpacking.decompress(packed, _PART_BYTES)
                packed = unpacking.unconsumed_tail
        yield unpacking.flush()

    def remove(self, name: str) -> None:
        """Remove a file."""
        try:
            length = int.from_bytes(self._part(name, 0)[:8], "big")
        except BuildFileGone:
            return
        for number in range(length // _PART_BYTES + 1):
            self._redis.delete(build_file_key(name, number))

    def _part(self, name: str, number: int) -> bytes:
        key = build_file_key(name, number)
        found = self._redis.execute_command("GET", key, NEVER_DECODE=True)
        if found is None:
            raise BuildFileGone(name)
        return bytes(found)


def _parts(content: Iterable[bytes]) -> Iterator[bytes]:
    """Yield a content, compressed, in parts of equal size but for the last."""
    packing, waiting = zlib.compressobj(1), bytearray()
    for block in chain(content, [None]):
        waiting += packing.flush() if block is None else packing.compress(block)
        while len(waiting) >= _PART_BYTES:
            yield bytes(waiting[:_PART_BYTES])
            del waiting[:_PART_BYTES]
    if waiting:
        yield bytes(waiting)
