"""A cache of embedding vectors, so that no embedding is paid for twice."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import redis

from sleipnir.scheduler.store.keys import failures_key, vector_key

# Long enough to retry a failed build; a built index contains the vectors itself.
_KEPT_S = 86_400
_KEPT_AFTER_BUILD_S = 600
_AT_ONCE = 256


class KeptVectors:
    """The vectors cached by all workers of one Redis, by model and hash of the text."""

    def __init__(self, client: redis.Redis) -> None:
        # redis-py types every answer as a union of its sync and async forms.
        self._redis: Any = client

    def find(self, model: str, digests: Sequence[str]) -> dict[str, bytes]:
        """Return the cached vectors by digest."""
        found: dict[str, bytes] = {}
        for start in range(0, len(digests), _AT_ONCE):
            part = digests[start : start + _AT_ONCE]
            with self._redis.pipeline(transaction=False) as pipe:
                for digest in part:
                    pipe.execute_command("GET", _key(model, digest), NEVER_DECODE=True)
                vectors = zip(part, pipe.execute(), strict=True)
            found.update((digest, vector) for digest, vector in vectors if vector is not None)
        return found

    def missing(self, model: str, digests: Sequence[str]) -> list[str]:
        """Return the digests without a cached vector; renew the others for another day."""
        missing: list[str] = []
        for start in range(0, len(digests), _AT_ONCE):
            part = digests[start : start + _AT_ONCE]
            with self._redis.pipeline(transaction=False) as pipe:
                for digest in part:
                    pipe.expire(_key(model, digest), _KEPT_S)
                kept = zip(part, pipe.execute(), strict=True)
            missing += [digest for digest, is_kept in kept if not is_kept]
        return missing

    def keep(self, model: str, vectors: Mapping[str, bytes]) -> None:
        """Cache vectors by the digests of their texts."""
        with self._redis.pipeline(transaction=False) as pipe:
            for digest, vector in vectors.items():
                pipe.set(_key(model, digest), vector, ex=_KEPT_S)
            pipe.execute()

    def let_go(self, model: str, digests: Sequence[str]) -> None:
        """Shorten the expiry of vectors that an index now contains."""
        with self._redis.pipeline(transaction=False) as pipe:
            for digest in digests:
                pipe.expire(_key(model, digest), _KEPT_AFTER_BUILD_S)
            pipe.execute()

    def count_failure(self, call: str) -> int:
        """Count a failure of an embedding call; return how often it has failed."""
        key = failures_key(call)
        count = int(self._redis.incr(key))
        self._redis.expire(key, _KEPT_AFTER_BUILD_S)
        return count


def _key(model: str, digest: str) -> str:
    return vector_key(hashlib.sha256(f"{model}\0{digest}".encode()).hexdigest())
