"""The cache of model replies, by request; equal calls share one that is under way."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal, NamedTuple

import redis

from sleipnir.scheduler.store.clock import RedisClock
from sleipnir.scheduler.store.cluster.groups import tag_for
from sleipnir.scheduler.store.limit_queries import PARTITION
from sleipnir.scheduler.store.transitions import Scripts

# A worker renews its calls several times within this.
LEASE_S = 15.0


class FoundReply(NamedTuple):
    """What a call is to do: take a reply, be made, or wait for an equal one."""

    verdict: Literal["cached", "shared", "make", "wait"]
    reply: str  # a message as JSON text
    wait_s: float


class CachedReplies:
    """The reply cache shared by all workers of one Redis.

    Requests are named by their digests, and calls as limits name them.
    """

    def __init__(self, client: redis.Redis, clock: RedisClock) -> None:
        # redis-py types every answer as a union of its sync and async forms.
        self._redis: Any = client
        self._scripts = Scripts(client, clock)

    def find(self, digest: str, call: str) -> FoundReply:
        """Return the kept reply to a request, or what to do without one."""
        found = self._call("find_reply", digest, call, int(LEASE_S * 1000))
        return FoundReply(found.verdict, found.reply, int(found.wait_ms) / 1000)

    def kept(self, digest: str) -> str | None:
        """Return the kept reply to a request, whatever other calls do."""
        tag = tag_for(self._redis, digest)
        text: str | None = self._redis.get(f"{tag}sleipnir:cache:{digest}")
        return text

    def end(self, digest: str, call: str, reply: str = "", keep_s: float = 0.0) -> list[str]:
        """End a call, keep its reply, and return the calls that wait for it, the first first.

        Raises:
            RedisError: Redis cannot store it.
        """
        return list(
            self._call("end_shared_call", digest, call, reply, round(keep_s * 1000)).waiting
        )

    def renew(self, digests: Iterable[str]) -> None:
        """Renew calls that are under way."""
        with self._redis.pipeline(transaction=False) as pipe:
            for digest in digests:
                pipe.pexpire(f"{self._place_of(digest)}:made:{digest}", int(LEASE_S * 1000))
            pipe.execute()

    def _call(self, name: str, digest: str, *arguments: str | int) -> Any:
        clock = self._scripts.clock.argument()
        place = self._place_of(digest)
        return self._scripts.transition(name)(place, digest, *arguments, clock=clock)

    def _place_of(self, digest: str) -> str:
        """Return what the keys of a request begin with; on a cluster they are spread."""
        tag = tag_for(self._redis, digest)
        return f"{tag}limits" if tag else PARTITION
